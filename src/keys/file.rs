//! The provider `file`: the key-encryption key (KEK) is in a file of the server's user.
//!
//! The file is read anew for each data key to wrap or unwrap, which is seldom, so the KEK is in memory for moments only
//! and a file that was put right is used at once.

use std::ffi::OsStr;
use std::fs::{File, OpenOptions};
use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;

use zeroize::Zeroizing;

use super::provider::{random, random_key, KeyName, NewKey, Problem};
use super::settings;
use crate::crypto::cipher::{Key, IV_LEN, KEY_LEN};
use crate::crypto::wrap::{self, KeyId, UnwrapError};
use crate::pg::error::{CONFIG_FILE_ERROR, DATA_CORRUPTED, INTERNAL_ERROR};

/// Hexadecimal digits in the file.
const DIGITS: usize = 2 * KEY_LEN;
/// More than a correct file can hold, so that a longer one is seen to be longer.
const READ_MAX: usize = 2 * DIGITS;
/// Permission bits that the file may have.
const MODE_ALLOWED: u32 = 0o600;

const SETTING_HINT: &str = "Set \"pg_vault_tde.key_file\" to a file that holds 64 hexadecimal digits, as \
     \"openssl rand -hex 32\" prints them, with mode 0600 and owned by the server's operating-system user.";

/// Makes a random data key and wraps it.
pub fn generate(key_id: &KeyId) -> Result<NewKey, Problem> {
    let kek = read_kek(&settings::key_file())?;
    let dek = random_key()?;
    let mut iv = [0; IV_LEN];
    random(&mut iv)?;
    let wrapped = wrap::wrap(&kek, key_id, &dek, &iv).map_err(|_| openssl_failed())?;
    Ok(NewKey { dek, wrapped: wrapped.to_vec(), kek_version: None })
}

/// Unwraps a data key.
pub fn unwrap(key: KeyName<'_>, wrapped: &[u8]) -> Result<Zeroizing<Key>, Problem> {
    let path = settings::key_file();
    let kek = read_kek(&path)?;
    wrap::unwrap(&kek, key.key_id, wrapped).map_err(|e| match e {
        UnwrapError::Authentication => {
            Problem::new(CONFIG_FILE_ERROR, format!("key file \"{}\" does not fit the data key of {key}", shown(&path)))
                .hint(
                    "Set \"pg_vault_tde.key_file\" to the key file that was in use when this data key was made. \
             Without it, rows encrypted under this data key cannot be read.",
                )
        }
        UnwrapError::BadFormat => Problem::new(DATA_CORRUPTED, format!("the wrapped data key of {key} is malformed"))
            .hint("Restore the database from a backup."),
        UnwrapError::Library => openssl_failed(),
    })
}

/// Whether the key file can be read and holds a key.
pub fn check() -> Result<(), Problem> {
    read_kek(&settings::key_file()).map(drop)
}

/// Reads the KEK. A relative path is relative to the data directory, which is each server process's own.
fn read_kek(path: &[u8]) -> Result<Zeroizing<Key>, Problem> {
    if path.is_empty() {
        return Err(Problem::new(CONFIG_FILE_ERROR, "\"pg_vault_tde.key_file\" is not set").hint(SETTING_HINT));
    }
    let failed = |what: &str, e: &io::Error| {
        Problem::new(CONFIG_FILE_ERROR, format!("could not {what} key file \"{}\": {}", shown(path), Reason(e)))
            .hint(SETTING_HINT)
    };
    // not to wait for a writer if it is a named pipe
    let mut file = OpenOptions::new()
        .read(true)
        .custom_flags(libc::O_NONBLOCK)
        .open(Path::new(OsStr::from_bytes(path)))
        .map_err(|e| failed("open", &e))?;
    check_file(path, &file.metadata().map_err(|e| failed("stat", &e))?)?;

    let mut content = Zeroizing::new([0; READ_MAX]);
    let len = read_all(&mut file, content.as_mut_slice()).map_err(|e| failed("read", &e))?;
    parse(&content[..len]).ok_or_else(|| {
        Problem::new(CONFIG_FILE_ERROR, format!("key file \"{}\" does not hold a key", shown(path)))
            .detail("It must hold exactly 64 hexadecimal digits, which a line end may follow.")
            .hint(SETTING_HINT)
    })
}

/// Refuses a file that others than the server's user can read or change.
fn check_file(path: &[u8], about: &std::fs::Metadata) -> Result<(), Problem> {
    let path = shown(path);
    if !about.is_file() {
        return Err(
            Problem::new(CONFIG_FILE_ERROR, format!("key file \"{path}\" is not a regular file")).hint(SETTING_HINT)
        );
    }
    // SAFETY: no arguments, never fails.
    let server_user = unsafe { libc::geteuid() };
    if about.uid() != server_user {
        return Err(Problem::new(CONFIG_FILE_ERROR, format!("key file \"{path}\" belongs to another user"))
            .detail(format!("Its owner is user {}; the server runs as user {server_user}.", about.uid()))
            .hint(
                "Make the server's operating-system user its owner, or set \"pg_vault_tde.key_file\" to another file.",
            ));
    }
    let mode = about.mode() & 0o7777;
    if mode & !MODE_ALLOWED != 0 {
        return Err(Problem::new(CONFIG_FILE_ERROR, format!("permissions of key file \"{path}\" are too wide"))
            .detail(format!("Its mode is {mode:04o}; it must be 0600 or stricter."))
            .hint("Run \"chmod 0600\" on the file that \"pg_vault_tde.key_file\" names."));
    }
    Ok(())
}

/// Reads up to the end of the file or of `buffer`.
fn read_all(file: &mut File, buffer: &mut [u8]) -> io::Result<usize> {
    let mut len = 0;
    while len < buffer.len() {
        match file.read(&mut buffer[len..]) {
            Ok(0) => break,
            Ok(n) => len += n,
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) => return Err(e),
        }
    }
    Ok(len)
}

/// The key that the file's content spells.
fn parse(content: &[u8]) -> Option<Zeroizing<Key>> {
    let content = content.strip_suffix(b"\n").unwrap_or(content);
    let digits: &[u8; DIGITS] = content.strip_suffix(b"\r").unwrap_or(content).try_into().ok()?;
    let mut key = Zeroizing::new([0; KEY_LEN]);
    for (byte, pair) in key.iter_mut().zip(digits.chunks_exact(2)) {
        *byte = (hex(pair[0])? << 4) | hex(pair[1])?;
    }
    Some(key)
}

fn hex(digit: u8) -> Option<u8> {
    char::from(digit).to_digit(16).map(|value| value as u8)
}

/// A path in a message.
fn shown(path: &[u8]) -> std::borrow::Cow<'_, str> {
    String::from_utf8_lossy(path)
}

/// An operating-system error as strerror() says it.
struct Reason<'a>(&'a io::Error);

impl std::fmt::Display for Reason<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let text = self.0.to_string();
        f.write_str(text.split(" (os error").next().unwrap_or(&text))
    }
}

fn openssl_failed() -> Problem {
    Problem::new(INTERNAL_ERROR, "OpenSSL could not encrypt or decrypt a data key")
}
