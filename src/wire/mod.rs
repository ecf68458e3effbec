//! The ledger's types as messages of the gRPC contract, and back.
//!
//! Every ledger type that crosses the wire implements [`Wire`]. Writing a message always succeeds. Reading one
//! either gives the ledger's type or an [`Invalid`] that names the field by its path; it never panics, whatever
//! the bytes were. What a message may say but the ledger's rules refuse is not judged here.

mod adopt;
mod change;
mod command;
mod outcome;
pub mod row;
mod types;

#[cfg(test)]
mod arbitrary;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::fmt;
use std::net::IpAddr;

use holdfast_statemachine::Name;

/// The longest name, in bytes: that of a Kubernetes object.
pub const NAME_MAX: usize = 253;
/// The longest text that is not a name, in bytes: a label, a range as written, another allocator's owner.
pub const TEXT_MAX: usize = 1024;
/// How much of a value an [`Invalid`] repeats, in bytes.
const VALUE_MAX: usize = 256;

/// A ledger type that has a message of its own.
pub trait Wire: Sized {
    /// The message.
    type Message;

    /// The message that says this.
    fn to_message(&self) -> Self::Message;

    /// What a message says.
    fn from_message(message: Self::Message) -> Result<Self, Invalid>;
}

/// A field of a message that says nothing that the ledger knows.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{field}: {value:?} is not allowed: {allowed}")]
pub struct Invalid {
    /// The field's path: `commands[3].put_pool.pool.name`.
    pub field: String,
    /// What it held, cut to 256 bytes.
    pub value: String,
    /// What is allowed.
    pub allowed: String,
}

impl Invalid {
    /// A field that holds this value, though only what `allowed` says may be there.
    pub fn new(field: &str, value: impl fmt::Display, allowed: impl Into<String>) -> Invalid {
        let mut value = value.to_string();
        if value.len() > VALUE_MAX {
            let end = (0..=VALUE_MAX).rev().find(|at| value.is_char_boundary(*at)).unwrap_or(0);
            value.truncate(end);
        }
        Invalid { field: field.to_owned(), value, allowed: allowed.into() }
    }

    /// The same, seen from the message whose field `parent` holds the one that is wrong.
    #[must_use]
    pub fn within(mut self, parent: &str) -> Invalid {
        let dot = if self.field.is_empty() || self.field.starts_with('[') { "" } else { "." };
        self.field = format!("{parent}{dot}{}", self.field);
        self
    }
}

/// Names the field in which a reading failed.
pub trait Within<T> {
    /// See [`Invalid::within`].
    fn within(self, parent: &str) -> Result<T, Invalid>;
}

impl<T> Within<T> for Result<T, Invalid> {
    fn within(self, parent: &str) -> Result<T, Invalid> {
        self.map_err(|invalid| invalid.within(parent))
    }
}

/// What a field holds that must be set.
pub fn required<M>(field: &str, message: Option<M>) -> Result<M, Invalid> {
    message.ok_or_else(|| Invalid::new(field, "", "must be set"))
}

/// Reads a field that must be set.
pub fn field<T: Wire>(field: &str, message: Option<T::Message>) -> Result<T, Invalid> {
    T::from_message(required(field, message)?).within(field)
}

/// Reads a field that may be missing.
pub fn optional<T: Wire>(field: &str, message: Option<T::Message>) -> Result<Option<T>, Invalid> {
    message.map(T::from_message).transpose().within(field)
}

/// Reads a repeated field.
pub fn list<T: Wire>(field: &str, messages: Vec<T::Message>) -> Result<Vec<T>, Invalid> {
    each(field, messages, T::from_message)
}

/// Writes a repeated field.
pub fn messages<T: Wire>(values: &[T]) -> Vec<T::Message> {
    values.iter().map(T::to_message).collect()
}

/// Reads every item of a repeated field in the same way.
fn each<M, T>(field: &str, items: Vec<M>, read: impl Fn(M) -> Result<T, Invalid>) -> Result<Vec<T>, Invalid> {
    let items = items.into_iter().enumerate();
    items.map(|(at, item)| read(item).within(&format!("{field}[{at}]"))).collect()
}

/// A name: 1 to [`NAME_MAX`] bytes without control characters.
pub fn name(field: &str, value: String) -> Result<Name, Invalid> {
    if value.is_empty() || value.len() > NAME_MAX || value.chars().any(char::is_control) {
        return Err(Invalid::new(field, value, format!("1 to {NAME_MAX} bytes without control characters")));
    }
    Ok(Name::from(value))
}

/// A name that may be empty, as a UID may.
pub fn name_or_empty(field: &str, value: String) -> Result<Name, Invalid> {
    if value.is_empty() { Ok(Name::from("")) } else { name(field, value) }
}

/// A name that may be missing.
fn optional_name(field: &str, value: Option<String>) -> Result<Option<Name>, Invalid> {
    value.map(|value| name(field, value)).transpose()
}

/// Names.
fn names(field: &str, values: Vec<String>) -> Result<Vec<Name>, Invalid> {
    each(field, values, |value| name("", value))
}

/// Text of at most [`TEXT_MAX`] bytes without control characters.
pub fn text(field: &str, value: String) -> Result<Name, Invalid> {
    if value.len() > TEXT_MAX || value.chars().any(char::is_control) {
        return Err(Invalid::new(field, value, format!("at most {TEXT_MAX} bytes without control characters")));
    }
    Ok(Name::from(value))
}

/// Labels.
fn labels(field: &str, values: BTreeMap<String, String>) -> Result<BTreeMap<Name, Name>, Invalid> {
    let read = |(key, value): (String, String)| Ok((text("", key)?, text("", value)?));
    values.into_iter().map(read).collect::<Result<_, _>>().within(field)
}

/// Labels as written.
fn label_messages(labels: &BTreeMap<Name, Name>) -> BTreeMap<String, String> {
    labels.iter().map(|(key, value)| (key.to_string(), value.to_string())).collect()
}

/// An address.
pub fn address(field: &str, value: &str) -> Result<IpAddr, Invalid> {
    value.parse().map_err(|_| Invalid::new(field, value, "an IPv4 or IPv6 address"))
}

/// Addresses.
fn addresses(field: &str, values: Vec<String>) -> Result<Vec<IpAddr>, Invalid> {
    each(field, values, |value| address("", &value))
}

/// An address that may be missing.
fn optional_address(field: &str, value: Option<&String>) -> Result<Option<IpAddr>, Invalid> {
    value.map(|value| address(field, value)).transpose()
}

/// A count of addresses.
pub fn count(field: &str, value: &str) -> Result<u128, Invalid> {
    let digits = !value.is_empty() && value.bytes().all(|byte| byte.is_ascii_digit());
    let number = digits.then(|| value.parse().ok()).flatten();
    number.ok_or_else(|| Invalid::new(field, value, "a decimal number of at most 128 bits"))
}

/// Text out of a name.
fn string(name: &Name) -> String {
    name.as_ref().to_owned()
}

/// Text out of a name that may be missing.
fn optional_string(name: Option<&Name>) -> Option<String> {
    name.map(string)
}

/// Texts out of names.
fn strings(names: &[Name]) -> Vec<String> {
    names.iter().map(string).collect()
}

/// A ledger enum without fields, and the contract's enum of the same values.
macro_rules! wire_enum {
    ($ours:ty, $theirs:ty, { $($our:ident = $their:ident),* $(,)? }) => {
        impl $crate::wire::Wire for $ours {
            type Message = i32;

            fn to_message(&self) -> i32 {
                match self {
                    $(<$ours>::$our => <$theirs>::$their.into()),*
                }
            }

            fn from_message(message: i32) -> Result<Self, $crate::wire::Invalid> {
                match <$theirs>::try_from(message) {
                    $(Ok(<$theirs>::$their) => Ok(<$ours>::$our),)*
                    _ => {
                        let allowed = [$(<$theirs>::$their.as_str_name()),*].join(", ");
                        Err($crate::wire::Invalid::new("", message, allowed))
                    }
                }
            }
        }
    };
}
use wire_enum;
