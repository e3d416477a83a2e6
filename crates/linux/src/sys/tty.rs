//! The caller's terminal in raw mode, put back on every way out: when the guard is dropped, when the program
//! aborts, and when a signal such as SIGSEGV ends it. SIGKILL alone cannot be answered.

use std::io;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};

/// Signals that end the program without unwinding it.
const FATAL: [i32; 5] = [libc::SIGABRT, libc::SIGBUS, libc::SIGFPE, libc::SIGILL, libc::SIGSEGV];

/// What a handler needs; set before the handlers are, and read by them alone.
static SAVED: Saved = Saved(std::cell::UnsafeCell::new(None));
static TERMINAL: AtomicI32 = AtomicI32::new(-1);
static RAW: AtomicBool = AtomicBool::new(false);
static TAKEN: Mutex<()> = Mutex::new(());

struct Saved(std::cell::UnsafeCell<Option<libc::termios>>);
// SAFETY: written only by `Raw::enter` while RAW is false and TAKEN is held; read only once RAW is true.
unsafe impl Sync for Saved {}

/// Raw mode for as long as this lives.
#[derive(Debug)]
pub(crate) struct Raw(());

impl Raw {
    /// Makes the terminal at `number`, one of the standard three, raw. There is one guard at a time.
    pub(crate) fn enter(number: i32) -> io::Result<Self> {
        let _taken = TAKEN.lock().map_err(|_| io::ErrorKind::ResourceBusy)?;
        if RAW.load(Ordering::SeqCst) {
            return Err(io::ErrorKind::ResourceBusy.into());
        }
        // SAFETY: termios is plain data; tcgetattr and cfmakeraw write only to the value they are given.
        // SAVED is written while RAW is false, so no handler reads it.
        let raw = unsafe {
            let mut termios: libc::termios = std::mem::zeroed();
            if libc::tcgetattr(number, &raw mut termios) != 0 {
                return Err(io::Error::last_os_error());
            }
            *SAVED.0.get() = Some(termios);
            libc::cfmakeraw(&raw mut termios);
            termios
        };
        TERMINAL.store(number, Ordering::SeqCst);
        RAW.store(true, Ordering::SeqCst);
        for signal in FATAL {
            // SAFETY: `restore_and_die` is an `extern "C"` function that makes async-signal-safe calls only
            // (signal-safety(7): tcsetattr, signal, raise).
            unsafe { libc::signal(signal, restore_and_die as *const () as libc::sighandler_t) };
        }
        // SAFETY: `raw` is a whole termios.
        if unsafe { libc::tcsetattr(number, libc::TCSANOW, &raw const raw) } != 0 {
            let error = io::Error::last_os_error();
            restore();
            return Err(error);
        }
        Ok(Self(()))
    }
}

impl Drop for Raw {
    fn drop(&mut self) {
        restore();
        for signal in FATAL {
            // SAFETY: SIG_DFL is a valid disposition.
            unsafe { libc::signal(signal, libc::SIG_DFL) };
        }
    }
}

/// Puts the terminal back, once.
fn restore() {
    if RAW.swap(false, Ordering::SeqCst) {
        // SAFETY: SAVED was written before RAW became true and is not written again until it is false, which
        // it became just now, here; a whole termios is read.
        unsafe {
            if let Some(saved) = &*SAVED.0.get() {
                libc::tcsetattr(TERMINAL.load(Ordering::SeqCst), libc::TCSADRAIN, std::ptr::from_ref(saved));
            }
        }
    }
}

extern "C" fn restore_and_die(signal: libc::c_int) {
    restore();
    // SAFETY: both calls are async-signal-safe; with the default action back, raise ends the program as
    // intended.
    unsafe {
        libc::signal(signal, libc::SIG_DFL);
        libc::raise(signal);
    }
}
