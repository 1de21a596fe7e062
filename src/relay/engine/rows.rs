//! The rows in an engine's care, which may stand in lanes. The ledger itself knows nothing of those.

use crate::relay::lanes::in_flight::InFlightRow;
use crate::relay::ledger;
use crate::relay::ledger::entry;

pub(crate) type Ledger = ledger::Ledger<InFlightRow>;
pub(crate) type Reservation = ledger::Reservation<InFlightRow>;
pub(crate) type Entry = entry::Entry<InFlightRow>;
pub(crate) type Holder = entry::Holder<InFlightRow>;
