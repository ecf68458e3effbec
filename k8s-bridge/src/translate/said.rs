//! What was found while an object was read.

use std::collections::BTreeMap;

use holdfast_statemachine::command::{Operator, Requirement, Selector};
use holdfast_statemachine::{Action, Name};

use super::{Note, Translated, annotations};
use crate::objects::{Kind, LabelSelector, Namespace, Object, ObjectRef};
use crate::problem::FieldProblem;

/// Collects problems and notes about one object, so that all of them are told at once.
pub(super) struct Said {
    object: ObjectRef,
    problems: Vec<FieldProblem>,
    notes: Vec<Note>,
}

impl Said {
    pub(super) fn about(object: ObjectRef) -> Said {
        Said { object, problems: Vec::new(), notes: Vec::new() }
    }

    /// A field holds what it may not.
    pub(super) fn refuse(&mut self, field: impl Into<String>, value: &str, allowed: impl Into<String>) {
        self.problems.push(FieldProblem::text(&self.object, field, value, allowed));
    }

    /// A field that is required is not there.
    pub(super) fn missing(&mut self, field: impl Into<String>, allowed: impl Into<String>) {
        self.problems.push(FieldProblem::missing(&self.object, field, allowed));
    }

    /// As [`Said::refuse`], for another object that this one depends on.
    pub(super) fn refuse_of(&mut self, object: &ObjectRef, annotation: &str, fault: annotations::Fault) {
        let field = annotations::field("metadata", annotation);
        self.problems.push(FieldProblem::text(object, field, &fault.value, fault.allowed));
    }

    pub(super) fn note(&mut self, text: String) {
        self.notes.push(Note { object: self.object.clone(), text });
    }

    pub(super) fn finish(self, action: Option<Action>) -> Result<Translated, Vec<FieldProblem>> {
        if self.problems.is_empty() { Ok(Translated { action, notes: self.notes }) } else { Err(self.problems) }
    }

    /// An annotation's value, read by `read`; a fault is noted and counts as an annotation that is not there.
    pub(super) fn annotation<T>(
        &mut self,
        at: &str,
        all: &BTreeMap<Name, Name>,
        key: &str,
        read: impl FnOnce(&str) -> Result<T, annotations::Fault>,
    ) -> Option<T> {
        match read(all.get(key)?) {
            Ok(value) => Some(value),
            Err(fault) => {
                self.refuse(annotations::field(at, key), &fault.value, fault.allowed);
                None
            }
        }
    }

    /// Names as the Kubernetes API would take them, and annotations of ours that nobody reads.
    pub(super) fn check_names(&mut self, object: &Object) {
        let metadata = object.metadata();
        if !annotations::is_object_name(&metadata.name) {
            self.refuse("metadata.name", &metadata.name, annotations::NAME_ALLOWED);
        }
        if object.kind().namespaced() && !annotations::is_object_name(&metadata.namespace()) {
            self.refuse("metadata.namespace", &metadata.namespace(), annotations::NAME_ALLOWED);
        }
        let read = annotations::read_on(object.kind());
        for key in metadata.annotations.keys() {
            if key.starts_with(annotations::OURS) && !read.contains(&&**key) {
                self.note(format!("annotation {key} is not one that is read on a {}", object.kind().name()));
            }
        }
        if let Object::StatefulSet(set) = object {
            for key in set.spec.template.metadata.annotations.keys() {
                if key.starts_with(annotations::OURS) {
                    self.note(format!("annotation {key} is read on the StatefulSet itself, not on its Pod template"));
                }
            }
        }
    }

    pub(super) fn check_namespace(&mut self, namespace: &Namespace) {
        self.annotation("metadata", &namespace.metadata.annotations, annotations::POOLS, annotations::pools);
    }

    /// A label selector at this path.
    pub(super) fn selector(&mut self, at: &str, selector: &LabelSelector) -> Selector {
        let mut match_expressions = Vec::new();
        for (i, written) in selector.match_expressions.iter().enumerate() {
            let at = format!("{at}.matchExpressions[{i}]");
            let operator = match &*written.operator {
                "In" => Operator::In,
                "NotIn" => Operator::NotIn,
                "Exists" => Operator::Exists,
                "DoesNotExist" => Operator::DoesNotExist,
                other => {
                    self.refuse(format!("{at}.operator"), other, "In, NotIn, Exists or DoesNotExist");
                    continue;
                }
            };
            let takes_values = matches!(operator, Operator::In | Operator::NotIn);
            if takes_values && written.values.is_empty() {
                self.missing(format!("{at}.values"), format!("{} needs at least one value", written.operator));
            } else if !takes_values && let Some(first) = written.values.first() {
                self.refuse(format!("{at}.values[0]"), first, format!("{} takes no values", written.operator));
            }
            if written.key.is_empty() {
                self.refuse(format!("{at}.key"), "", "the name of a label");
            }
            let (key, values) = (written.key.clone(), written.values.clone());
            match_expressions.push(Requirement { key, operator, values });
        }
        Selector { match_labels: selector.match_labels.clone(), match_expressions }
    }

    /// The pools that a Namespace names, for an object in it that names none.
    pub(super) fn namespace_pools(&mut self, namespace: Option<&Namespace>) -> Vec<Name> {
        let Some(namespace) = namespace else { return Vec::new() };
        let Some(value) = namespace.metadata.annotations.get(annotations::POOLS) else { return Vec::new() };
        annotations::pools(value).unwrap_or_else(|fault| {
            let kind = Kind::Namespace.name().into();
            let object = ObjectRef { kind, namespace: None, name: namespace.metadata.name.clone() };
            self.refuse_of(&object, annotations::POOLS, fault);
            Vec::new()
        })
    }
}
