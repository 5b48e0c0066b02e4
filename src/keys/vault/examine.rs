//! What `vault_tde.status()` says about the key server: a few requests, each tried once, and no data key.

use serde_json::Value;

use super::blame::Deed;
use super::blob::TransitKey;
use super::config::{configured_key, Auth};
use super::http::Failure;
use super::session::Session;
use crate::keys::provider::{Finding, Problem};

/// Operations of the Transit key that nothing works without, and those that `vault_tde.rewrap_keys()` needs.
const NEEDED: [&str; 2] = ["datakey/plaintext", "decrypt"];
const FOR_REWRAPPING: [&str; 2] = ["rewrap", "encrypt"];

/// Asks the key server how things are. Returns the findings, and the newest version of the Transit key if it is known.
pub fn examine() -> (Vec<Finding>, Option<i32>) {
    let mut findings = Vec::new();
    match begin() {
        Err(problem) => {
            findings.push(Finding::usable(Err(problem)));
            (findings, None)
        }
        Ok((session, key)) => {
            let newest = ask(&session, &key, &mut findings);
            (findings, newest)
        }
    }
}

fn begin() -> Result<(Session, TransitKey), Problem> {
    Ok((Session::begin_once()?, configured_key()?))
}

fn ask(session: &Session, key: &TransitKey, findings: &mut Vec<Finding>) -> Option<i32> {
    let url = &session.config.url;
    let deed = |operation| Deed {
        message: "cannot use the key server: data keys cannot be wrapped".into(),
        url,
        key,
        operation,
        version: None,
    };
    let unusable = |failure| Finding::usable(Err(deed("decrypt").blame(failure)));
    let (token, refusal) = match session.request(&session.config.namespace, "auth/token/lookup-self", None) {
        Ok(answer) => (token_text(&session.config.auth, answer.data()), None),
        // a policy may lack even that
        Err(Failure::Refused(answer)) if answer.status == 403 => {
            ("unknown: the token may not look itself up".to_owned(), Some(answer))
        }
        Err(failure) => {
            findings.push(unusable(failure));
            return None;
        }
    };
    let missing = match (missing(session, key), refusal) {
        (None, Some(answer)) => {
            // neither is denied by the policy that every token has
            findings.push(unusable(Failure::Refused(answer)));
            return None;
        }
        (missing, _) => missing.unwrap_or_default(),
    };
    let is_missing = |operation: &&str| missing.contains(&key.path(operation));
    let version = match session.request(&key.namespace, &key.path("keys"), None) {
        Err(Failure::Refused(answer)) if answer.status == 403 => Ok(None),
        Err(failure) => Err(unusable(failure)),
        Ok(answer) => Ok(answer.data()["latest_version"].as_i64().and_then(|version| i32::try_from(version).ok())),
    };
    let newest = match version {
        Err(finding) => {
            findings.push(finding);
            None
        }
        Ok(newest) => {
            let path = key.path("keys");
            match NEEDED.iter().find(|operation| is_missing(operation)) {
                None => findings.push(Finding::usable(Ok(format!("yes: \"{path}\" of \"{url}\"")))),
                Some(operation) => {
                    let text = format!("no: the token's policy lacks \"update\" on \"{}\"", key.path(operation));
                    findings.push(Finding::new("key provider usable", text, false));
                }
            }
            newest
        }
    };
    let version = newest.map_or("unknown: the token may not read the key".to_owned(), |version| version.to_string());
    findings.push(Finding::new("key-encryption key version", version, true));
    findings.push(Finding::new("key server token", token, true));
    if let Some(operation) = FOR_REWRAPPING.iter().find(|operation| is_missing(operation)) {
        let text = format!("no: the token's policy lacks \"update\" on \"{}\"", key.path(operation));
        findings.push(Finding::new("keys can be rewrapped", text, false));
    }
    if session.config.is_in_the_clear() {
        let text = "not encrypted: data keys can be read on the way";
        findings.push(Finding::new("key server connection", text, false));
    }
    newest
}

/// The paths of our operations that the token's policy does not allow; None if that cannot be found out.
fn missing(session: &Session, key: &TransitKey) -> Option<Vec<String>> {
    let paths: Vec<String> = NEEDED.iter().chain(&FOR_REWRAPPING).map(|operation| key.path(operation)).collect();
    let body = format!("{{\"paths\":[\"{}\"]}}", paths.join("\",\""));
    let answer = session.request(&key.namespace, "sys/capabilities-self", Some(&body)).ok()?;
    let allows = |path: &String| {
        let Some(capabilities) = answer.data()[path.as_str()].as_array() else { return true };
        capabilities.iter().filter_map(Value::as_str).any(|c| c == "root" || c == "update")
    };
    Some(paths.into_iter().filter(|path| !allows(path)).collect())
}

fn token_text(auth: &Auth, token: &Value) -> String {
    let kind = token["type"].as_str().unwrap_or("unknown");
    let source = match auth {
        Auth::TokenFile(_) => "from a file",
        Auth::AppRole { .. } => "by AppRole",
    };
    let expiry = match token["ttl"].as_i64() {
        Some(0) | None => "does not expire".to_owned(),
        Some(seconds) => format!("expires in {seconds} s"),
    };
    let policies = token["policies"].as_array().map(Vec::as_slice).unwrap_or_default();
    let policies: Vec<&str> = policies.iter().filter_map(Value::as_str).collect();
    format!("{kind} token {source}, {expiry}, policies {}", policies.join(", "))
}
