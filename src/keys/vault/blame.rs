//! A failure of the key server as an ERROR: what could not be done, why, and what helps.

use super::blob::TransitKey;
use super::http::{Answer, Failure};
use crate::keys::provider::Problem;
use crate::pg::error::{SqlState, OBJECT_NOT_IN_PREREQUISITE_STATE, QUERY_CANCELED, SYSTEM_ERROR};

/// What was being done, for messages.
pub struct Deed<'a> {
    /// "could not unwrap the data key of …"
    pub message: String,
    /// The address of the key server.
    pub url: &'a str,
    /// The key, and the operation with it.
    pub key: &'a TransitKey,
    pub operation: &'a str,
    /// The key's version that a ciphertext needs.
    pub version: Option<i32>,
}

impl Deed<'_> {
    /// The parts of the ERROR. SQLSTATEs of class 08 would be fitting, but connection pools take them for the loss of
    /// their own connection to PostgreSQL.
    pub fn blame(self, failure: Failure) -> Problem {
        let url = self.url;
        let mut message = format!("{} by key \"{}\" of key server \"{url}\"", self.message, self.key.path("keys"));
        let mut code = SYSTEM_ERROR;
        let (detail, hint) = match failure {
            Failure::Problem(problem) => return problem,
            Failure::Canceled => return Problem::new(QUERY_CANCELED, "canceled while waiting for the key server"),
            Failure::Network(why) => (
                format!("There is no connection to the key server: {why}."),
                "Check that the key server runs and \"pg_vault_tde.vault_addr\" is its address. Nothing needs to be done \
                 here once it can be reached."
                    .to_owned(),
            ),
            Failure::Timeout => (
                "The key server did not answer within \"pg_vault_tde.vault_timeout\".".to_owned(),
                "Check the key server, or raise \"pg_vault_tde.vault_timeout\".".to_owned(),
            ),
            Failure::Tls(why) => (
                format!("The connection to the key server could not be secured: {}.", brief(&why)),
                "Check that \"pg_vault_tde.vault_ca_cert\" names the file with the CA of the key server's certificate, and \
                 that the certificate is for the host in \"pg_vault_tde.vault_addr\"."
                    .to_owned(),
            ),
            Failure::Malformed(why) => (
                format!("What answered is no key server, or there is a proxy before it: {}.", brief(&why)),
                "Check \"pg_vault_tde.vault_addr\".".to_owned(),
            ),
            Failure::Login(inner) => {
                message = format!("could not log in to key server \"{url}\" by AppRole");
                let why = match *inner {
                    Failure::Refused(answer) => said(&answer),
                    Failure::Malformed(why) => format!("Its answer cannot be used: {}.", brief(&why)),
                    _ => String::new(),
                };
                (
                    why,
                    "Check \"pg_vault_tde.vault_role_id\", and that the secret id in the file that \
                     \"pg_vault_tde.vault_secret_id_file\" names has not expired."
                        .to_owned(),
                )
            }
            Failure::Refused(answer) => {
                let (its_code, hint) = self.remedy(&answer, &mut message);
                code = its_code;
                (said(&answer), hint)
            }
        };
        Problem::new(code, message).detail(detail).hint(hint)
    }

    fn remedy(&self, answer: &Answer, message: &mut String) -> (SqlState, String) {
        let (key, operation) = (self.key, self.operation);
        let errors = answer.errors();
        let hint = match answer.status {
            403 => format!(
                "Check that the token has not expired, and that its policy allows \"update\" on \"{}\".",
                key.path(operation)
            ),
            404 if errors.is_empty() => format!("Check that key \"{}\" exists.", key.path("keys")),
            404 => format!(
                "Check that a Transit engine is mounted at \"{}\"{}.",
                key.mount,
                if key.namespace.is_empty() {
                    String::new()
                } else {
                    format!(" in namespace \"{}\"", key.namespace)
                }
            ),
            429 => "Raise the request quota of the key server, or try again later.".to_owned(),
            503 => "Unseal the key server. Nothing needs to be done here after that.".to_owned(),
            500.. => "See the log of the key server.".to_owned(),
            400 if errors.contains("too old") => {
                let version = self.version.map_or(String::new(), |v| format!(" {v}"));
                *message = format!(
                    "{}, since version{version} of key \"{}\" of key server \"{}\" is older than its \
                     \"min_decryption_version\"",
                    self.message,
                    key.path("keys"),
                    self.url
                );
                return (
                    OBJECT_NOT_IN_PREREQUISITE_STATE,
                    "Lower the key's \"min_decryption_version\" to that version, run SELECT vault_tde.rewrap_keys() in each \
                     database that has encrypted tables, and raise it again."
                        .to_owned(),
                );
            }
            400 if errors.contains("not found") => format!(
                "Check that key \"{}\" exists. If it was deleted, restore it: without it no other server start can read \
                 the rows under this data key. While this server still has the data key in memory, vault_tde.rewrap_keys() \
                 can wrap it by another key.",
                key.path("keys")
            ),
            _ => format!("Check that key \"{}\" is the one that has wrapped the data key.", key.path("keys")),
        };
        (SYSTEM_ERROR, hint)
    }
}

/// The server's own words, as a sentence.
fn said(answer: &Answer) -> String {
    match answer.errors().as_str() {
        "" => format!("It answered with status {}.", answer.status),
        errors => format!("It answered with status {}: {}.", answer.status, brief(errors)),
    }
}

/// A text from outside on one line of a sensible length.
fn brief(text: &str) -> String {
    const MAX: usize = 300;
    let words: Vec<&str> =
        text.split(|c: char| c.is_whitespace() || c.is_control()).filter(|w| !w.is_empty()).collect();
    let mut line = words.join(" ");
    if let Some((end, _)) = line.char_indices().nth(MAX) {
        line.truncate(end);
        line.push('…');
    }
    line.trim_end_matches('.').to_owned()
}
