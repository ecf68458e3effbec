//! Names of objects that live in a namespace, as given on the command line.

use std::str::FromStr;

use holdfast_api::v1;

/// `NAMESPACE/NAME`, or `NAME` in the namespace `default`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Namespaced {
    namespace: String,
    name: String,
}

impl FromStr for Namespaced {
    type Err = String;

    fn from_str(text: &str) -> Result<Namespaced, String> {
        let (namespace, name) = text.split_once('/').unwrap_or(("default", text));
        if namespace.is_empty() || name.is_empty() || name.contains('/') {
            return Err("NAMESPACE/NAME, or NAME in the namespace default".to_owned());
        }
        Ok(Namespaced { namespace: namespace.to_owned(), name: name.to_owned() })
    }
}

impl Namespaced {
    /// As a StatefulSet.
    pub fn stateful_set(self) -> v1::StatefulSetId {
        v1::StatefulSetId { namespace: self.namespace, name: self.name }
    }

    /// As a Pod.
    pub fn pod(self) -> v1::PodId {
        v1::PodId { namespace: self.namespace, name: self.name }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_without_a_namespace_is_in_the_default_one() {
        let read = |text: &str| text.parse::<Namespaced>().map(|it| (it.namespace, it.name));
        assert_eq!(read("web"), Ok(("default".into(), "web".into())));
        assert_eq!(read("shop/web"), Ok(("shop".into(), "web".into())));
        for text in ["", "/", "a/", "/a", "a/b/c"] {
            assert!(read(text).is_err(), "{text:?}");
        }
    }
}
