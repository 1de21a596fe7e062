//! The physical position of a row version.

use std::io::Write as _;

use diesel::deserialize::{self, FromSql, FromSqlRow};
use diesel::expression::AsExpression;
use diesel::pg::{Pg, PgValue};
use diesel::serialize::{self, IsNull, Output, ToSql};
use diesel::sql_types::SqlType;

/// PostgreSQL's `tid`, which Diesel has no type for.
#[derive(Debug, Clone, Copy, SqlType)]
#[diesel(postgres_type(oid = 27, array_oid = 1010))]
pub struct Tid;

/// The position of a row version. Valid while the transaction that locked the row is open: nobody else writes the row, and VACUUM
/// moves nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, AsExpression, FromSqlRow)]
#[diesel(sql_type = Tid)]
pub struct Ctid([u8; 6]);

impl FromSql<Tid, Pg> for Ctid {
    fn from_sql(value: PgValue<'_>) -> deserialize::Result<Self> {
        Ok(Self(value.as_bytes().try_into()?))
    }
}

impl ToSql<Tid, Pg> for Ctid {
    fn to_sql<'b>(&'b self, out: &mut Output<'b, '_, Pg>) -> serialize::Result {
        out.write_all(&self.0)?;
        Ok(IsNull::No)
    }
}
