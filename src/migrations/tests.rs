use super::*;

fn version(source: &Migrations) -> String {
    let found: Vec<Box<dyn Migration<Sqlite>>> = source.migrations().expect("the migrations");
    found[0].name().version().to_string()
}

#[test]
fn versions_never_change() {
    let shop = Migrations::new(TableNames::default().prefix("shop_").unwrap());
    assert_eq!(version(&MIGRATIONS), "0000outbox01");
    assert_eq!(version(&Migrations::new(TableNames::default())), "0000outbox01");
    assert_eq!(version(&shop), "0000outbox01-516645312c5c278e");
    assert_eq!(version(&Migrations::inbox(TableNames::default())), "0000inbox01");
    let shop = Migrations::inbox(TableNames::default().prefix("shop_").unwrap());
    assert_eq!(version(&shop), "0000inbox01-516645312c5c278e");
}
