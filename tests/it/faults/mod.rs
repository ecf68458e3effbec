//! What goes wrong, done to real processes on real files.
//!
//! `HOLDFAST_FAULTS_LONG=1` runs the same tests at the sizes of a night. `HOLDFAST_FAULTS_SEED=n` repeats
//! the choices of a run that printed `n`; what the machine's timing adds is not repeated.

mod address_model;
mod ask;
mod bad_input;
mod bounds;
mod catch_up;
mod damage;
mod fate;
mod formation;
mod group;
mod kill;
mod linearizability;
mod load;
mod proxy;
mod reads;

/// Held by each test that runs a group: elections need the machine to themselves.
async fn serial() -> tokio::sync::MutexGuard<'static, ()> {
    static ONE: tokio::sync::Mutex<()> = tokio::sync::Mutex::const_new(());
    ONE.lock().await
}

/// Whether there is time for the sizes of a night.
fn long() -> bool {
    std::env::var_os("HOLDFAST_FAULTS_LONG").is_some_and(|value| !value.is_empty() && value != "0")
}

/// What the test's choices come from; printed, so that they can be made again.
fn seed() -> u64 {
    let seed = match std::env::var("HOLDFAST_FAULTS_SEED") {
        Ok(seed) => seed.parse().expect("HOLDFAST_FAULTS_SEED is a number"),
        Err(_) => rand::random(),
    };
    println!("HOLDFAST_FAULTS_SEED={seed}");
    seed
}
