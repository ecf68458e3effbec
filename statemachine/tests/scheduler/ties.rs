//! Nodes that share points. The names were found by trying random ones.

use super::naive::crc32;
use super::*;

/// Point 48 of the first is point 3 of the second; they share no other.
pub const ONE_POINT: [&str; 2] = ["node-3b8e", "node-6vmps7"];
/// They share twenty of their fifty points.
pub const TWENTY_POINTS: [&str; 2] = ["node-78t6xb", "node-7dc4nv"];
/// They share all points, each at its own index: same length, same CRC-32.
pub const ALL_POINTS: [&str; 2] = ["ip-10-136-241-48", "ip-10-193-21-105"];

fn points(node: &str) -> Vec<u32> {
    (0..50).map(|i| crc32(&format!("{i}{node}"))).collect()
}

#[test]
fn the_names_share_what_they_are_said_to() {
    for ([a, b], shared) in [(ONE_POINT, 1), (TWENTY_POINTS, 20), (ALL_POINTS, 50)] {
        assert!(a < b);
        let of_b = points(b);
        assert_eq!(points(a).iter().filter(|point| of_b.contains(point)).count(), shared, "{a}, {b}");
    }
    assert_eq!(points(ONE_POINT[0])[48], points(ONE_POINT[1])[3]);
}

/// An address that meets first the point shared by the two, then one of `third`.
fn address_before_the_shared_point(third: &str) -> String {
    let [a, b] = ONE_POINT;
    let shared = points(a)[48];
    let mut all: Vec<(u32, &str)> =
        [a, b, third].iter().flat_map(|node| points(node).into_iter().map(move |point| (point, *node))).collect();
    all.sort_unstable();
    all.dedup_by_key(|(point, _)| *point);
    let at = all.iter().position(|(point, _)| *point == shared).unwrap();
    assert_eq!(all[at + 1].1, third, "another third Node is needed");
    let before = all[at - 1].0;
    (0..u32::from(u16::MAX))
        .map(|i| IpAddr::from((0x0a00_0000 + i).to_be_bytes()).to_string())
        .find(|text| (before + 1..=shared).contains(&crc32(text)))
        .unwrap()
}

#[test]
fn a_shared_point_belongs_to_the_smaller_name_also_when_full() {
    let [small, large] = ONE_POINT;
    let shared = points(small)[48];
    let next = |node: &str| points(node).iter().map(|point| point.wrapping_sub(shared)).filter(|d| *d > 0).min();
    let comes_next = |third: &String| next(third) < next(small) && next(third) < next(large);
    let third = (0..1_000).map(|i| format!("third-{i}")).find(comes_next).unwrap();
    let text = address_before_the_shared_point(&third);
    for policy in [Policy::Sticky, Policy::ConsistentHash] {
        let place = |capacity_of_small: u32, with_small: bool| {
            let mut scheduler = with_pool(policy, 255);
            // The larger name first: the order of arrival must not matter.
            for node in [large, &third, small] {
                scheduler.put_node(&name(node), live((node == small).then_some(capacity_of_small)));
            }
            if !with_small {
                scheduler.remove_node(small);
            }
            scheduler.put_address(ip(&text), address("e", 1));
            act(&mut scheduler);
            node_of(&scheduler, &text).unwrap()
        };
        assert_eq!(place(1, true), small);
        assert_eq!(place(0, true), third, "full, and still the owner");
        assert_eq!(place(0, false), large, "gone, and no longer the owner");
    }
}

#[test]
fn a_node_without_a_point_of_its_own_is_reached_by_a_pin_alone() {
    let [small, large] = ALL_POINTS;
    for policy in [Policy::Sticky, Policy::Spread, Policy::ConsistentHash] {
        let mut scheduler = with_pool(policy, 1);
        scheduler.put_node(&name(large), live(None));
        scheduler.put_node(&name(small), live(None));
        scheduler.put_address(ip("10.0.0.1"), address("a", 1));
        scheduler.put_address(ip("10.0.0.2"), address("b", 2));
        act(&mut scheduler);
        assert_eq!(node_of(&scheduler, "10.0.0.1").as_deref(), Some(small));
        assert_eq!(node_of(&scheduler, "10.0.0.2"), None);
        let explanation = scheduler.explain(ip("10.0.0.2")).unwrap();
        assert_eq!((explanation.eligible, explanation.at_capacity), (1, 1));
        assert_eq!(scheduler.drain_leaves(small), 0, "without the smaller name the larger owns the points");
        if policy != Policy::ConsistentHash {
            assert!(scheduler.pin(ip("10.0.0.2"), large).unwrap().is_some());
            assert_eq!(act(&mut scheduler), []);
        }
        scheduler.remove_node(small);
        act(&mut scheduler);
        let left = if policy == Policy::ConsistentHash { "10.0.0.1" } else { "10.0.0.2" };
        assert_eq!(scheduler.addresses_on(large), [ip(left)], "{policy:?}");
    }
}

#[test]
fn a_drain_that_leaves_its_points_to_another_node_counts_who_is_placed_there_first() {
    let [small, large] = ALL_POINTS;
    let mut scheduler = with_pool(Policy::Sticky, 1);
    scheduler.put_node(&name(small), live(None));
    scheduler.put_address(ip("10.0.0.2"), address("late", 2));
    act(&mut scheduler);
    scheduler.put_address(ip("10.0.0.1"), address("early", 1));
    scheduler.put_node(&name(large), live(None));
    assert_eq!(act(&mut scheduler), []);
    assert_eq!(scheduler.drain_leaves(small), 1);
    assert_eq!(scheduler.homeless(), [ip("10.0.0.1")]);
}
