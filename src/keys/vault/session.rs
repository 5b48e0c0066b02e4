//! An operation with the key server: its token, its tries, its time.
//!
//! A token from a file is read for each operation. One from an AppRole login is kept by the process, and a new one is
//! taken when the server does not like it any more. What fails for a reason that may pass (no connection, a sealed or busy
//! server) is tried again, with growing pauses, as long as `pg_vault_tde.vault_timeout` allows.

use std::time::{Duration, Instant};

use zeroize::Zeroizing;

use super::config::{Auth, Config};
use super::http::{Answer, Ask, Failure, Http};
use super::signals::{self, Waiting};
use crate::keys::provider::Problem;
use crate::keys::secret_file::SecretFile;
use crate::pg::BackendCell;

/// The longest token, or secret id, that is read.
const SECRET_MAX: usize = 16 * 1024;
const FIRST_PAUSE: Duration = Duration::from_millis(50);
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

/// A token, and what it was had for: another server, namespace or role needs another.
struct Login {
    whose: String,
    token: Zeroizing<String>,
}

/// The token of this process's last login.
static LOGIN: BackendCell<Option<Login>> = BackendCell::new(None);

/// One operation, which may be several requests.
pub struct Session {
    pub config: Config,
    http: Http,
    deadline: Instant,
    /// Whether to try again what may pass.
    patient: bool,
    _waiting: Waiting,
}

impl Session {
    /// Begins an operation; `pg_vault_tde.vault_timeout` counts from here.
    pub fn begin() -> Result<Session, Problem> {
        Session::new(true)
    }

    /// The same without second tries, to see how things are.
    pub fn begin_once() -> Result<Session, Problem> {
        Session::new(false)
    }

    fn new(patient: bool) -> Result<Session, Problem> {
        let config = Config::current()?;
        let http = Http::new(&config)?;
        let deadline = Instant::now() + config.timeout;
        Ok(Session { config, http, deadline, patient, _waiting: Waiting::new() })
    }

    /// Sends a request with our token, to the namespace `namespace`: a POST of `body`, or a GET. Logs in again once if
    /// the token is not accepted and another can be had.
    pub fn request(&self, namespace: &str, path: &str, body: Option<&str>) -> Result<Answer, Failure> {
        let token = self.token(None)?;
        match self.send(&Ask { path, body, namespace, token: Some(&token) }) {
            Err(Failure::Refused(answer)) if answer.status == 403 => {
                let other = self.token(Some(&token))?;
                if *other == *token {
                    return Err(Failure::Refused(answer));
                }
                self.send(&Ask { path, body, namespace, token: Some(&other) })
            }
            result => result,
        }
    }

    /// The token to use; another than `refused`, if there is one.
    fn token(&self, refused: Option<&str>) -> Result<Zeroizing<String>, Failure> {
        let (role_id, secret_id_file) = match &self.config.auth {
            Auth::TokenFile(path) => return token_of_file(path).map_err(Failure::Problem),
            Auth::AppRole { role_id, secret_id_file } => (role_id, secret_id_file),
        };
        let whose = format!("{} {} {role_id}", self.config.url, self.config.namespace);
        // SAFETY: the reference ends with this block, in which nothing comes back here.
        let kept = unsafe { &mut *LOGIN.as_ptr() };
        match kept {
            Some(login) if login.whose == whose && refused != Some(login.token.as_str()) => {
                return Ok(login.token.clone());
            }
            _ => *kept = None,
        }
        let token = self.log_in(role_id, secret_id_file).map_err(|failure| match failure {
            // not what all requests would meet with
            Failure::Refused(ref answer) if !may_pass(&failure) || answer.status == 429 => {
                Failure::Login(Box::new(failure))
            }
            other => other,
        })?;
        // SAFETY: as above.
        unsafe { *LOGIN.as_ptr() = Some(Login { whose, token: token.clone() }) };
        Ok(token)
    }

    fn log_in(&self, role_id: &str, secret_id_file: &[u8]) -> Result<Zeroizing<String>, Failure> {
        let secret_id = secret_of_file(&SecretFile {
            kind: "secret id file",
            setting: "pg_vault_tde.vault_secret_id_file",
            hint: "Set \"pg_vault_tde.vault_secret_id_file\" to a file that holds the secret id of the AppRole, with mode \
                 0600 and owned by the server's operating-system user.",
            path: secret_id_file,
        })
        .map_err(Failure::Problem)?;
        // both are visible ASCII
        let quoted = |text: &str| text.replace('\\', "\\\\").replace('"', "\\\"");
        let secret_id = Zeroizing::new(quoted(&secret_id));
        let body = Zeroizing::new(format!("{{\"role_id\":\"{}\",\"secret_id\":\"{}\"}}", quoted(role_id), *secret_id));
        let namespace = &self.config.namespace;
        let mut answer = self.send(&Ask { path: "auth/approle/login", body: Some(&body), namespace, token: None })?;
        let token = answer.take("auth", "client_token").filter(|token| is_secret(token.as_bytes()));
        token.ok_or_else(|| Failure::Malformed("its answer holds no token".into()))
    }

    /// Sends a request until there is an answer, or a failure that will not pass, or time is up. Then the failure that says
    /// most is returned.
    fn send(&self, ask: &Ask<'_>) -> Result<Answer, Failure> {
        let mut pause = FIRST_PAUSE;
        let mut last = Failure::Timeout;
        loop {
            let Some(time) = self.deadline.checked_duration_since(Instant::now()).filter(|t| !t.is_zero()) else {
                return Err(last);
            };
            last = match self.http.exchange(ask, time) {
                Ok(answer) if (200..300).contains(&answer.status) => return Ok(answer),
                Ok(answer) => Failure::Refused(answer),
                Err(Failure::Timeout) => return Err(last),
                Err(failure) => failure,
            };
            if !self.patient || !may_pass(&last) {
                return Err(last);
            }
            let time = self.deadline.saturating_duration_since(Instant::now());
            if signals::pause(pause.min(time)) {
                return Err(Failure::Canceled);
            }
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
    }
}

/// Whether a failure may be gone at the next try.
fn may_pass(failure: &Failure) -> bool {
    match failure {
        Failure::Network(_) => true,
        // 412: a node that is behind; 429: too many requests
        Failure::Refused(answer) => answer.status >= 500 || matches!(answer.status, 412 | 429),
        _ => false,
    }
}

fn token_of_file(path: &[u8]) -> Result<Zeroizing<String>, Problem> {
    secret_of_file(&SecretFile {
        kind: "token file",
        setting: "pg_vault_tde.vault_token_file",
        hint:
            "Set \"pg_vault_tde.vault_token_file\" to a file that holds a token for the key server, with mode 0600 and \
             owned by the server's operating-system user.",
        path,
    })
}

/// The one line of the file.
fn secret_of_file(file: &SecretFile<'_>) -> Result<Zeroizing<String>, Problem> {
    let mut content = Zeroizing::new([0; SECRET_MAX]);
    let len = file.read(content.as_mut_slice())?;
    let secret = content[..len].trim_ascii();
    if len == SECRET_MAX || !is_secret(secret) {
        return Err(file.problem(format!("{} \"{}\" does not hold one line of text", file.kind, file.shown())));
    }
    Ok(Zeroizing::new(String::from_utf8_lossy(secret).into_owned()))
}

fn is_secret(secret: &[u8]) -> bool {
    !secret.is_empty() && secret.iter().all(u8::is_ascii_graphic)
}
