//! Keeps messages out of the sender's own network: connections go to public addresses only.
//!
//! The check is in the client's resolver, on the addresses that the connection uses. A check of the name before the
//! request would leave a gap in which the name can get another address.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use reqwest::dns::{Addrs, Name, Resolve, Resolving};

/// The receiver has no public address.
#[derive(Debug, thiserror::Error)]
#[error("the receiver has no public address, and private ones are denied")]
pub(super) struct NoPublicAddress;

/// Resolves names and drops every address that is not public.
#[derive(Debug)]
pub(super) struct PublicAddressResolver;

impl Resolve for PublicAddressResolver {
    fn resolve(&self, name: Name) -> Resolving {
        Box::pin(async move {
            let found = tokio::net::lookup_host((name.as_str(), 0)).await?;
            Ok(keep_public(found)?)
        })
    }
}

fn keep_public(found: impl Iterator<Item = SocketAddr>) -> Result<Addrs, NoPublicAddress> {
    let public: Vec<SocketAddr> = found.filter(|address| is_public(address.ip())).collect();
    if public.is_empty() { Err(NoPublicAddress) } else { Ok(Box::new(public.into_iter())) }
}

/// Whether an address is public. An address that stands for another one (mapped, translated, tunnelled) is judged by
/// that one.
pub(super) fn is_public(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => is_public_v4(address),
        IpAddr::V6(address) => is_public_v6(address),
    }
}

fn is_public_v4(address: Ipv4Addr) -> bool {
    let [a, b, c, _] = address.octets();
    let special = address.is_private()
        || address.is_loopback()
        || address.is_link_local()
        || address.is_documentation()
        || address.is_multicast();
    // "This network", carrier-grade NAT, protocol assignments, benchmarks, relays, and reserved ranges.
    let reserved = a == 0
        || (a == 100 && (64..128).contains(&b))
        || (a, b, c) == (192, 0, 0)
        || (a, b, c) == (192, 88, 99)
        || (a == 198 && (b == 18 || b == 19))
        || a >= 240;
    !special && !reserved
}

fn is_public_v6(address: Ipv6Addr) -> bool {
    let [a, b, c, d, e, f, g, h] = address.segments();
    let v4 = |high: u16, low: u16| {
        let ([a, b], [c, d]) = (high.to_be_bytes(), low.to_be_bytes());
        is_public_v4(Ipv4Addr::new(a, b, c, d))
    };
    match (a, b, c, d, e) {
        // Mapped, translated by NAT64, and 6to4.
        (0, 0, 0, 0, 0) if f == 0xffff => v4(g, h),
        (0x64, 0xff9b, 0, 0, 0) if f == 0 => v4(g, h),
        (0x2002, ..) => v4(b, c),
        // Protocol assignments (with Teredo) and documentation.
        (0x2001, 0..0x200, ..) | (0x2001, 0xdb8, ..) | (0x3fff, 0..0x1000, ..) => false,
        _ => (0x2000..0x4000).contains(&a),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn public(address: &str) -> bool {
        is_public(address.parse().unwrap())
    }

    #[test]
    fn only_addresses_of_the_internet_are_public() {
        for address in ["1.1.1.1", "93.184.216.34", "172.32.0.1", "192.0.1.1", "2606:4700::1111", "2a00::1"] {
            assert!(public(address), "{address}");
        }
        let inside = [
            "127.0.0.1",
            "10.1.2.3",
            "172.16.0.1",
            "192.168.1.1",
            "169.254.169.254",
            "0.0.0.0",
            "0.1.2.3",
            "100.64.0.1",
            "192.0.0.8",
            "198.18.0.1",
            "203.0.113.7",
            "224.0.0.1",
            "240.0.0.1",
            "255.255.255.255",
            "::",
            "::1",
            "fe80::1",
            "fc00::1",
            "fd12::1",
            "ff02::1",
            "fec0::1",
            "2001:db8::1",
            "2001::1",
            "3fff::1",
        ];
        for address in inside {
            assert!(!public(address), "{address}");
        }
    }

    #[test]
    fn a_mapped_address_counts_as_its_target() {
        for (mapped, is) in [
            ("::ffff:127.0.0.1", false),
            ("::ffff:169.254.169.254", false),
            ("::ffff:1.1.1.1", true),
            ("64:ff9b::10.0.0.1", false),
            ("64:ff9b::1.1.1.1", true),
            ("2002:a00:1::1", false),
            ("2002:101:101::1", true),
            ("::127.0.0.1", false),
        ] {
            assert_eq!(public(mapped), is, "{mapped}");
        }
    }

    #[test]
    fn only_public_addresses_are_tried() {
        let found = |list: &[&str]| {
            let found: Vec<SocketAddr> = list.iter().map(|ip| SocketAddr::new(ip.parse().unwrap(), 0)).collect();
            keep_public(found.into_iter()).map(|left| left.map(|address| address.ip().to_string()).collect::<Vec<_>>())
        };
        assert_eq!(found(&["10.0.0.1", "1.1.1.1", "::1"]).unwrap(), ["1.1.1.1"]);
        assert!(found(&["10.0.0.1", "::1"]).is_err());
        assert!(found(&[]).is_err());
    }
}
