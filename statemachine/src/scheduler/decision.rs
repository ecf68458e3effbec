//! What the scheduler decides.

use std::net::IpAddr;

use super::Name;
use crate::change::MoveReason;

/// One address has another Node than before, or none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decision {
    /// The address.
    pub ip: IpAddr,
    /// Its Egress.
    pub egress: Name,
    /// Where it was.
    pub from: Option<Name>,
    /// Where it is.
    pub to: Option<Name>,
    /// Why it left, or `Homeless` if it had no Node.
    pub why: MoveReason,
}
