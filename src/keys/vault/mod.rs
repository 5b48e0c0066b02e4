//! The provider `vault`: the key-encryption key is a key of the Transit engine of a HashiCorp Vault or OpenBao server, and
//! never leaves it.
//!
//! | file         | what it does                                                           |
//! |--------------|------------------------------------------------------------------------|
//! | `mod.rs`     | makes, wraps, unwraps and rewraps a data key: one operation each       |
//! | `session.rs` | an operation: login, tries and retries, time                           |
//! | `http.rs`    | one request and its answer; TLS; redirects                             |
//! | `signals.rs` | blocks signals meanwhile; the wait event                               |
//! | `config.rs`  | the configuration parameters, checked                                  |
//! | `blob.rs`    | what the key table holds                                               |
//! | `blame.rs`   | failures as ERRORs                                                     |
//! | `examine.rs` | what `vault_tde.status()` says                                         |

mod blame;
mod blob;
mod config;
mod examine;
mod http;
mod session;
mod signals;

use base64::engine::general_purpose::STANDARD as BASE64;
use base64::Engine;
use zeroize::Zeroizing;

use self::blame::Deed;
use self::blob::{Blob, TransitKey};
use self::config::configured_key;
use self::http::{Answer, Failure};
use self::session::Session;
use super::provider::{KeyName, NewKey, Problem, Wrapping};
use crate::crypto::cipher::{Key, KEY_LEN};
use crate::pg::error::{DATA_CORRUPTED, SYSTEM_ERROR};

pub use examine::examine;
pub use signals::{pause, prepare_wait_event};

/// Has the Transit key make a data key. It is unwrapped once, at once: a data key that cannot be had back must not
/// encrypt a single row.
pub fn generate(key: KeyName<'_>) -> Result<NewKey, Problem> {
    let transit = configured_key()?;
    let session = Session::begin()?;
    let deed = |operation| Deed {
        message: format!("could not make the data key of generation {}", key.generation),
        url: &session.config.url,
        key: &transit,
        operation,
        version: None,
    };
    const MAKE: &str = "datakey/plaintext";
    let made = session.request(&transit.namespace, &transit.path(MAKE), Some("{\"bits\":256}"));
    let (dek, wrapping) = made
        .and_then(|mut answer| Ok((plaintext_of(&mut answer)?, wrapping_of(&mut answer, &transit)?)))
        .map_err(|failure| deed(MAKE).blame(failure))?;
    verify(&session, key, &dek, &wrapping)?;
    Ok(NewKey { dek, wrapping })
}

/// Wraps a data key that exists, and unwraps it for certainty.
pub fn wrap(key: KeyName<'_>, dek: &Key) -> Result<Wrapping, Problem> {
    let transit = configured_key()?;
    let session = Session::begin()?;
    let deed = |operation| Deed {
        message: format!("could not wrap the data key of {key}"),
        url: &session.config.url,
        key: &transit,
        operation,
        version: None,
    };
    // A key that does not exist, a misspelt name perhaps, would be made by "encrypt" if the token may do that.
    if let Err(Failure::Refused(answer)) = session.request(&transit.namespace, &transit.path("keys"), None) {
        if answer.status == 404 {
            return Err(deed("keys").blame(Failure::Refused(answer)));
        }
    }
    let mut body = Zeroizing::new(String::with_capacity(128));
    body.push_str("{\"plaintext\":\"");
    BASE64.encode_string(dek, &mut body);
    body.push_str("\"}");
    let wrapping = session
        .request(&transit.namespace, &transit.path("encrypt"), Some(&body))
        .and_then(|mut answer| wrapping_of(&mut answer, &transit))
        .map_err(|failure| deed("encrypt").blame(failure))?;
    verify(&session, key, dek, &wrapping)?;
    Ok(wrapping)
}

/// Unwraps a data key.
pub fn unwrap(key: KeyName<'_>, wrapped: &[u8]) -> Result<Zeroizing<Key>, Problem> {
    unwrap_in(&Session::begin()?, key, wrapped)
}

/// Has the Transit key wrap a data key anew under its newest version, without our seeing it. None if it is another
/// Transit key that has wrapped it.
pub fn rewrap(key: KeyName<'_>, wrapped: &[u8]) -> Result<Option<Wrapping>, Problem> {
    let transit = configured_key()?;
    let blob = parse(key, wrapped)?;
    if blob.key != transit {
        return Ok(None);
    }
    let session = Session::begin()?;
    session
        .request(&transit.namespace, &transit.path("rewrap"), Some(&body_of(blob.ciphertext)))
        .and_then(|mut answer| wrapping_of(&mut answer, &transit))
        .map(Some)
        .map_err(|failure| {
            Deed {
                message: format!("could not rewrap the data key of {key}"),
                url: &session.config.url,
                key: &transit,
                operation: "rewrap",
                version: blob::version(blob.ciphertext),
            }
            .blame(failure)
        })
}

/// Whether the configured Transit key, in some version, has wrapped this.
pub fn is_of_configured_key(wrapped: &[u8]) -> bool {
    matches!((Blob::parse(wrapped), configured_key()), (Some(blob), Ok(key)) if blob.key == key)
}

/// Unwraps by the Transit key that has wrapped. If that is not where it was, the configured one is tried: the engine may have
/// been moved to another mount or namespace.
fn unwrap_in(session: &Session, key: KeyName<'_>, wrapped: &[u8]) -> Result<Zeroizing<Key>, Problem> {
    const OPERATION: &str = "decrypt";
    let blob = parse(key, wrapped)?;
    let decrypt = |transit: &TransitKey| {
        session
            .request(&transit.namespace, &transit.path(OPERATION), Some(&body_of(blob.ciphertext)))
            .and_then(|mut answer| plaintext_of(&mut answer))
    };
    let failure = match decrypt(&blob.key) {
        Ok(dek) => return Ok(dek),
        Err(failure) => failure,
    };
    if matches!(&failure, Failure::Refused(answer) if matches!(answer.status, 400 | 403 | 404)) {
        if let Some(dek) =
            configured_key().ok().filter(|other| *other != blob.key).and_then(|other| decrypt(&other).ok())
        {
            return Ok(dek);
        }
    }
    let deed = Deed {
        message: format!("could not unwrap the data key of {key}"),
        url: &session.config.url,
        key: &blob.key,
        operation: OPERATION,
        version: blob::version(blob.ciphertext),
    };
    Err(deed.blame(failure))
}

/// Unwraps what was just wrapped and compares.
fn verify(session: &Session, key: KeyName<'_>, dek: &Key, wrapping: &Wrapping) -> Result<(), Problem> {
    let again = unwrap_in(session, key, &wrapping.wrapped)?;
    if openssl::memcmp::eq(&*again, dek) {
        return Ok(());
    }
    Err(Problem::new(SYSTEM_ERROR, format!("the key server unwraps another data key of {key} than it has wrapped"))
        .hint("See whether \"pg_vault_tde.vault_addr\" leads to servers that do not share their data."))
}

fn parse<'a>(key: KeyName<'_>, wrapped: &'a [u8]) -> Result<Blob<'a>, Problem> {
    Blob::parse(wrapped).ok_or_else(|| {
        Problem::new(DATA_CORRUPTED, format!("the wrapped data key of {key} is malformed"))
            .hint("Restore the database from a backup.")
    })
}

/// The body of a request about a ciphertext, whose characters need no escapes (`blob::version`).
fn body_of(ciphertext: &str) -> String {
    format!("{{\"ciphertext\":\"{ciphertext}\"}}")
}

/// The data key in an answer.
fn plaintext_of(answer: &mut Answer) -> Result<Zeroizing<Key>, Failure> {
    let malformed = || Failure::Malformed("its answer holds no data key of 32 bytes".into());
    let text = answer.take("data", "plaintext").ok_or_else(malformed)?;
    // what the decoder may write, which is more than the key
    let mut bytes = Zeroizing::new([0; KEY_LEN + 3]);
    match BASE64.decode_slice(text.as_bytes(), bytes.as_mut_slice()) {
        Ok(KEY_LEN) => {
            let mut dek = Zeroizing::new([0; KEY_LEN]);
            dek.copy_from_slice(&bytes[..KEY_LEN]);
            Ok(dek)
        }
        _ => Err(malformed()),
    }
}

/// The ciphertext in an answer, for the key table.
fn wrapping_of(answer: &mut Answer, key: &TransitKey) -> Result<Wrapping, Failure> {
    let malformed = || Failure::Malformed("its answer holds no ciphertext".into());
    let ciphertext = answer.take("data", "ciphertext").ok_or_else(malformed)?;
    let version = blob::version(&ciphertext).ok_or_else(malformed)?;
    Ok(Wrapping { wrapped: blob::build(key, &ciphertext), kek_version: Some(version) })
}
