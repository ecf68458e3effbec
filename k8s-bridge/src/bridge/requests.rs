//! Questions to the API server, each within a time.

use std::error::Error;
use std::fmt::{Display, Write};
use std::time::Duration;

/// How long an answer may take.
pub const PATIENCE: Duration = Duration::from_secs(15);

/// The answer, or why there is none.
pub async fn answered<T, E: Display>(question: impl Future<Output = Result<T, E>>) -> Result<T, String> {
    match tokio::time::timeout(PATIENCE, question).await {
        Ok(answer) => answer.map_err(|error| error.to_string()),
        Err(_) => Err(format!("no answer within {} s", PATIENCE.as_secs())),
    }
}

/// What failed, in one line: what the API server said; or what keeps it from being asked, down to the cause.
pub fn why(error: &kube::Error) -> String {
    if let kube::Error::Api(status) = error {
        return format!("{} {}: {}", status.code, status.reason, status.message);
    }
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let said = error.to_string();
        // Most repeat the cause, but none the cause's own.
        if !text.ends_with(&said) {
            let _ = write!(text, ": {said}");
        }
        cause = error.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use kube::core::Status;

    use super::*;

    #[derive(Debug, thiserror::Error)]
    #[error("client error (Connect)")]
    struct Connect(#[source] std::io::Error);

    #[test]
    fn a_failure_is_told_with_its_cause_and_once() {
        let refused = std::io::Error::other("connection refused");
        let error = kube::Error::Service(Connect(refused).into());
        assert_eq!(why(&error), "ServiceError: client error (Connect): connection refused");
        let status = Status { code: 403, reason: "Forbidden".into(), message: "no".into(), ..Status::default() };
        assert_eq!(why(&kube::Error::Api(status.boxed())), "403 Forbidden: no");
    }
}
