//! The engine's ledger of rows, which may be in lanes. The ledger itself knows nothing of lanes.

use crate::relay::lanes::in_flight::InFlightRow;
use crate::relay::ledger;
use crate::relay::ledger::entry;

pub(crate) type Ledger = ledger::Ledger<InFlightRow>;
pub(crate) type Reservation = ledger::Reservation<InFlightRow>;
pub(crate) type Entry = entry::Entry<InFlightRow>;
pub(crate) type Holder = entry::Holder<InFlightRow>;
