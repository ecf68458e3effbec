//! The definitions of IPPool, ExternalIPPool and Egress for a Kubernetes API server.
//!
//! Group, names, columns, schemas and formats are Antrea's (`crd.antrea.io/v1beta1`), so that a manifest written for
//! Antrea applies unchanged. There is no webhook: what Antrea's checks there, CEL rules check here, as far as
//! they can see it in one object. Order of IPv6 addresses, overlap, and all that needs other objects is the ledger's,
//! which shows it in the pool's condition `Ready`.
//!
//! CEL's cost is estimated before anything is stored, so what the rules walk over has bounds: [`RANGES_MAX`],
//! [`ADDRESS_LENGTH_MAX`], [`CIDR_LENGTH_MAX`]. These and [`EGRESS_ITEMS_MAX`] are all that Antrea takes and we do not.

mod egress;
mod pool;
mod schema;

use serde_json::{Map, Value, json};

use crate::export::to_yaml;
use crate::problem::Problem;

/// The label that tells our definitions from Antrea's; its value is the mode that may run over them.
pub const LABEL: &str = "holdfast.dev/crds";
/// The value of [`LABEL`].
pub const STANDALONE: &str = "standalone";
/// The definitions' own names.
pub const NAMES: [&str; 3] = ["egresses.crd.antrea.io", "externalippools.crd.antrea.io", "ippools.crd.antrea.io"];
/// The most `ipRanges` of a pool.
pub const RANGES_MAX: u32 = 256;
/// The most `egressIPs`, and the most `externalIPPools`, of an Egress.
pub const EGRESS_ITEMS_MAX: u32 = 16;
/// The longest text of an address: an IPv6 address that ends in an IPv4 one.
pub const ADDRESS_LENGTH_MAX: u32 = 45;
/// The longest text of a CIDR: such an address and `/128`.
pub const CIDR_LENGTH_MAX: u32 = 49;

const HEAD: &str = "# Written by `holdfast crds`.\n";

/// The definitions, sorted by name.
pub fn definitions() -> [Value; 3] {
    let mut definitions = [egress::definition(), pool::external_ip_pool(), pool::ip_pool()];
    // The text must not depend on how another crate has configured the maps of `serde_json`.
    definitions.iter_mut().for_each(Value::sort_all_objects);
    definitions
}

/// The definitions as YAML documents, ready to be applied.
pub fn yaml() -> Result<String, Problem> {
    let mut text = HEAD.to_owned();
    for definition in definitions() {
        text.push_str("---\n");
        text.push_str(&to_yaml(&definition)?);
    }
    Ok(text)
}

/// How a kind is called.
struct Names {
    kind: &'static str,
    plural: &'static str,
    singular: &'static str,
    short: &'static str,
}

/// A cluster-scoped kind of the one version.
fn definition(names: &Names, description: &str, spec: Value, status: Value, columns: Value) -> Value {
    let parts = Map::from_iter([("spec".to_owned(), spec), ("status".to_owned(), status)]);
    let whole = schema::told(schema::object(&["spec"], parts.into()), description);
    let mut definition = json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {
            "name": format!("{}.crd.antrea.io", names.plural),
            "labels": {LABEL: STANDALONE},
        },
        "spec": {
            "group": "crd.antrea.io",
            "scope": "Cluster",
            "names": {
                "kind": names.kind,
                "plural": names.plural,
                "singular": names.singular,
                "shortNames": [names.short],
            },
            "versions": [{
                "name": "v1beta1",
                "served": true,
                "storage": true,
                "schema": {"openAPIV3Schema": whole},
                "subresources": {"status": {}},
            }],
        },
    });
    definition["spec"]["versions"][0]["additionalPrinterColumns"] = columns;
    definition
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_checked_in_definitions_are_those_of_this_code() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../deploy/crds/crd.antrea.io.yaml");
        let checked_in = std::fs::read_to_string(path).expect("the definitions are checked in");
        let now = yaml().expect("they can be written");
        assert!(checked_in == now, "{path} is stale: cargo run -- crds > deploy/crds/crd.antrea.io.yaml");
    }

    #[test]
    fn the_yaml_reads_back_as_the_definitions() {
        let text = yaml().expect("they can be written");
        let read: Vec<Value> = serde_saphyr::from_multiple(&text).expect("it is YAML");
        assert_eq!(read, definitions());
    }

    #[test]
    fn what_is_exported_has_no_field_that_the_schemas_lack() {
        // The names that `export` writes, and those that only a running bridge does.
        let fields = |definition: &Value, path: &str| {
            let status = "/spec/versions/0/schema/openAPIV3Schema/properties/status/properties";
            let object = definition.pointer(&format!("{status}{path}")).and_then(Value::as_object);
            object.expect("is there").keys().map(String::as_str).collect::<Vec<_>>().join(" ")
        };
        let [egress, external, pool] = definitions();
        assert_eq!(fields(&egress, ""), "conditions egressIP egressIPs egressNode holdfast");
        assert_eq!(fields(&egress, "/egressIPs/items/properties"), "ip node");
        assert_eq!(fields(&external, ""), "conditions holdfast usage");
        assert_eq!(fields(&pool, ""), "conditions holdfast ipAddresses usage");
        assert_eq!(fields(&pool, "/ipAddresses/items/properties/owner/properties"), "name pod statefulSet");
        for definition in [&egress, &external, &pool] {
            let of_condition = "lastTransitionTime message observedGeneration reason status type";
            assert_eq!(fields(definition, "/conditions/items/properties"), of_condition);
            assert_eq!(fields(definition, "/holdfast/properties"), "cluster index");
        }
    }
}
