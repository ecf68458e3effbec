mod commands;
mod egress;
mod order;
mod problems;

use holdfast_statemachine::command::{PutEgress, PutNode, PutPool, Reserve};
use holdfast_statemachine::{Action, Name, Source};

use super::Plan;
use crate::manifests::read_text;

fn source() -> Source {
    Source::Manifests("test".into())
}

/// The plan of a text that must be right.
fn plan_of(yaml: &str) -> Plan {
    let manifests = read_text("x.yaml", yaml).unwrap_or_else(|problems| panic!("{problems:#?}"));
    super::plan(manifests.objects(), &source(), None).expect("what reads also plans")
}

fn actions(yaml: &str) -> Vec<Action> {
    plan_of(yaml).commands.into_iter().map(|command| command.action).collect()
}

fn notes(yaml: &str) -> Vec<String> {
    plan_of(yaml).notes.iter().map(ToString::to_string).collect()
}

/// The problems of one object, as `field | value | allowed`.
fn problems(yaml: &str) -> Vec<String> {
    let Err(problems) = read_text("x.yaml", yaml) else { return Vec::new() };
    let text = |problem: &crate::Problem| match problem {
        crate::Problem::Field { problem, .. } => format!("{} | {} | {}", problem.field, problem.value, problem.allowed),
        other => other.to_string(),
    };
    problems.iter().map(text).collect()
}

macro_rules! only {
    ($name:ident, $variant:ident, $type:ty) => {
        fn $name(yaml: &str) -> $type {
            let mut found =
                actions(yaml).into_iter().filter_map(|a| if let Action::$variant(it) = a { Some(it) } else { None });
            let one = found.next().expect("there is one");
            assert_eq!(found.next(), None, "there is but one");
            one
        }
    };
}
only!(put_pool, PutPool, PutPool);
only!(put_node, PutNode, PutNode);
only!(put_egress, PutEgress, PutEgress);
only!(reserve, Reserve, Reserve);

fn names(names: &[&str]) -> Vec<Name> {
    names.iter().map(|name| Name::from(*name)).collect()
}

/// A StatefulSet `db/pg`: annotations of its own, of its template, and more lines of `spec` and below.
fn set(own: &str, template: &str, more: &str) -> String {
    format!(
        "apiVersion: apps/v1\nkind: StatefulSet\nmetadata:\n  namespace: db\n  name: pg\n  annotations: {{{own}}}\n\
         spec:\n  template:\n    metadata:\n      annotations: {{{template}}}\n{more}\n---\n"
    )
}

fn namespace(annotations: &str) -> String {
    format!("apiVersion: v1\nkind: Namespace\nmetadata: {{name: db, annotations: {{{annotations}}}}}\n---\n")
}

/// A Pod `db/NAME`.
fn pod(name: &str, annotations: &str, owner: &str, more: &str) -> String {
    let owners = match owner {
        "" => "[]".to_owned(),
        owner => format!("[{{apiVersion: apps/v1, kind: {owner}, controller: true}}]"),
    };
    format!(
        "apiVersion: v1\nkind: Pod\nmetadata: {{namespace: db, name: {name}, annotations: {{{annotations}}}, \
         ownerReferences: {owners}}}\n{more}\n---\n"
    )
}

fn egress_of(spec: &str) -> String {
    format!(
        "apiVersion: crd.antrea.io/v1beta1\nkind: Egress\nmetadata: {{name: e}}\nspec: {{appliedTo: {{}}, {spec}}}\n"
    )
}

fn external_pool(spec: &str) -> String {
    format!("apiVersion: crd.antrea.io/v1beta1\nkind: ExternalIPPool\nmetadata: {{name: p}}\nspec: {{{spec}}}\n")
}

fn ip_pool(annotations: &str, spec: &str) -> String {
    format!(
        "apiVersion: crd.antrea.io/v1beta1\nkind: IPPool\nmetadata: {{name: p, annotations: {{{annotations}}}}}\n\
         spec: {{{spec}}}\n"
    )
}

fn node(annotations: &str, more: &str) -> String {
    format!("apiVersion: v1\nkind: Node\nmetadata: {{name: node, annotations: {{{annotations}}}}}\n{more}\n")
}
