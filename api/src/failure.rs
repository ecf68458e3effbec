//! Why a call failed, inside its `google.rpc.Status`.

use prost::Message as _;
use tonic::{Code, Status};
use tonic_types::pb;

use crate::v1::Failure;
use crate::v1::failure::Reason;

/// Names [`Failure`] among the details of a `google.rpc.Status`.
pub const FAILURE_TYPE_URL: &str = "type.googleapis.com/holdfast.v1.Failure";

/// The status that says this, with the code that the contract gives to the reason.
pub fn status(reason: Reason, message: impl Into<String>) -> Status {
    let code = code(&reason);
    let message = message.into();
    let failure = Failure { reason: Some(reason) };
    let detail = prost_types::Any { type_url: FAILURE_TYPE_URL.to_owned(), value: failure.encode_to_vec() };
    let details = pb::Status { code: code.into(), message: message.clone(), details: vec![detail] };
    Status::with_details(code, message, details.encode_to_vec().into())
}

/// The reason that a status carries, if it carries one that this release knows.
pub fn failure(status: &Status) -> Option<Reason> {
    let details = pb::Status::decode(status.details()).ok()?.details;
    let detail = details.into_iter().find(|detail| detail.type_url == FAILURE_TYPE_URL)?;
    Failure::decode(detail.value.as_slice()).ok()?.reason
}

fn code(reason: &Reason) -> Code {
    match reason {
        Reason::Invalid(_) => Code::InvalidArgument,
        Reason::NotFound(_) => Code::NotFound,
        Reason::Overloaded(_) | Reason::DiskFull(_) => Code::ResourceExhausted,
        Reason::FateUnknown(_) => Code::Unknown,
        Reason::NoLeader(_) => Code::Unavailable,
        Reason::Expired(_) => Code::DeadlineExceeded,
        Reason::TooOld(_) => Code::OutOfRange,
        Reason::Refused(_) => Code::FailedPrecondition,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::v1::failure::{FateUnknown, TooOld};

    #[test]
    fn a_status_carries_its_reason() {
        let reason = Reason::TooOld(TooOld { asked: 3, oldest: 9 });
        let status = status(reason.clone(), "too old");
        assert_eq!((status.code(), status.message()), (Code::OutOfRange, "too old"));
        assert_eq!(failure(&status), Some(reason));
    }

    #[test]
    fn only_an_unknown_fate_has_both_its_code_and_its_detail() {
        let unknown = status(Reason::FateUnknown(FateUnknown { why: "leadership lost".into() }), "");
        assert_eq!(unknown.code(), Code::Unknown);
        assert_eq!(failure(&Status::unknown("a proxy said so")), None);
    }

    #[test]
    fn details_that_are_noise_carry_nothing() {
        let noise = Status::with_details(Code::Internal, "", vec![0xff, 0x01, 0x80].into());
        assert_eq!(failure(&noise), None);
    }
}
