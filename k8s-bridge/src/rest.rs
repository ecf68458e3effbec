//! The part of an Egress that the ledger keeps and does not read.

use serde::{Deserialize, Serialize};

use holdfast_statemachine::Name;

use crate::objects::{AppliedTo, Bandwidth};

/// What `EgressRow::rest` holds, as JSON: always the same text for the same content, since fields stand in the order
/// of the types and maps are sorted.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Rest {
    /// Whose traffic.
    #[serde(default)]
    pub(crate) applied_to: AppliedTo,
    /// How much traffic.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) bandwidth: Option<Bandwidth>,
}

impl Rest {
    /// The canonical text.
    pub(crate) fn to_text(&self) -> Name {
        serde_json::to_string(self).expect("texts in maps with text keys are JSON").into()
    }

    /// Reads the text; what is none of ours (an Egress declared without Kubernetes) selects nothing.
    pub(crate) fn from_text(text: &str) -> Rest {
        serde_json::from_str(text).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_content_has_equal_text_and_an_empty_selector_is_not_a_missing_one() {
        let read = |text| serde_json::from_str::<Rest>(text).expect("reads");
        let one = read(
            r#"{"bandwidth": {"burst": "2M", "rate": "1M"}, "appliedTo": {"podSelector": {"matchLabels": {"b": "1", "a": "2"}}}}"#,
        );
        let other = read(
            r#"{"appliedTo": {"podSelector": {"matchLabels": {"a": "2", "b": "1"}}}, "bandwidth": {"rate": "1M", "burst": "2M"}}"#,
        );
        let text =
            r#"{"appliedTo":{"podSelector":{"matchLabels":{"a":"2","b":"1"}}},"bandwidth":{"rate":"1M","burst":"2M"}}"#;
        assert_eq!((&*one.to_text(), &*other.to_text()), (text, text));
        let empty = read(r#"{"appliedTo": {"podSelector": {}}}"#);
        assert_eq!(&*empty.to_text(), r#"{"appliedTo":{"podSelector":{}}}"#);
        assert_eq!(Rest::from_text(&empty.to_text()), empty);
        assert_eq!(&*Rest::from_text("").to_text(), r#"{"appliedTo":{}}"#);
    }
}
