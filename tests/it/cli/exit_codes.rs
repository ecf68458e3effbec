//! 0 done, 1 refused by a rule, 2 wrong use, 3 not reachable, 4 unknown fate.

use std::io::Read;
use std::net::TcpListener;

use crate::fixtures::{Dev, examples, free_addresses, holdfast};

#[test]
fn done_and_refused_by_a_rule() {
    let dev = Dev::start(&examples());
    dev.holdfast(&["drain", "worker-1"]).expect(0);
    let refused = dev.holdfast(&["pin", "web", "worker-1"]).expect(1);
    assert!(refused.err.contains("worker-1") && refused.err.contains("SelectorMismatch"), "{refused:#?}");
    let held = dev.holdfast(&["grant", "vm", "--pool", "pods-v4", "--address", "10.20.0.10"]).expect(1);
    assert!(held.err.contains("10.20.0.10 is held by StatefulSet shop/postgres ordinal 0"), "{held:#?}");
    let unknown = dev.holdfast(&["egress", "get", "nobody"]).expect(1);
    assert!(unknown.err.contains("nobody"), "{unknown:#?}");
    let json = dev.holdfast(&["pin", "web", "nowhere", "-o", "json"]).expect(1).json();
    assert_eq!(
        (json["results"][0]["result"].as_str(), json["results"][0]["code"].as_str()),
        (Some("refused"), Some("Unknown"))
    );
}

#[test]
fn wrong_use() {
    for args in [
        &["--no-such-flag"][..],
        &["history"],
        &["history", "10.0.0.1", "--owner", "vm"],
        &["grant"],
        &["grant", "vm"],
        &["rebalance", "--max-moves", "0"],
        &["settings", "set"],
        &["pool", "list", "--timeout", "soon"],
        &["pool", "list", "--endpoints", "nowhere"],
        &["dev", "x", "-o", "json"],
        &["serve", "--name", "a"],
    ] {
        let ran = holdfast(args).expect(2);
        assert!(!ran.err.is_empty() && ran.out.is_empty(), "{args:?}: {ran:#?}");
    }
}

#[test]
fn not_reachable() {
    let nobody = free_addresses(2).join(",");
    for args in [&["pool", "list"][..], &["status"], &["grant", "vm", "--pool", "p"], &["watch", "--timeout", "200ms"]]
    {
        let ran = holdfast(&[args, &["--endpoints", &nobody]].concat()).expect(3);
        assert!(nobody.split(',').any(|endpoint| ran.err.contains(endpoint)), "{ran:#?}");
    }
}

#[test]
fn a_write_that_was_sent_and_not_answered_has_an_unknown_fate() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let endpoint = listener.local_addr().expect("is bound").to_string();
    // It takes what is sent, and breaks the connection instead of answering.
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.expect("connects");
            let mut some = [0; 512];
            let mut taken = 0;
            while taken < 64 {
                match stream.read(&mut some) {
                    Ok(0) | Err(_) => break,
                    Ok(bytes) => taken += bytes,
                }
            }
        }
    });
    let write = ["grant", "vm", "--pool", "p", "--endpoints", &endpoint, "--timeout", "5s"];
    let ran = holdfast(&write).expect(4);
    assert!(ran.err.contains("repeating it is safe"), "{ran:#?}");
    holdfast(&["pool", "list", "--endpoints", &endpoint]).expect(3);
}

#[test]
fn one_dead_endpoint_of_three_goes_unnoticed() {
    let dev = Dev::start(&examples());
    let dead = free_addresses(1).remove(0);
    for at in 0..3 {
        let mut endpoints = dev.endpoints.clone();
        endpoints[at].clone_from(&dead);
        let endpoints = endpoints.join(",");
        let owner = format!("vm-{at}");
        let granted = holdfast(&["grant", &owner, "--pool", "pods-v4", "--endpoints", &endpoints]).expect(0);
        assert!(granted.err.is_empty(), "{granted:#?}");
        let listed = holdfast(&["grant", "list", "--owner", &owner, "--endpoints", &endpoints]).expect(0);
        assert!(listed.err.is_empty() && listed.out.contains("10.20.0."), "{listed:#?}");
    }
}
