//! Cancelling, over the connection that a worker keeps open for it.

use trimtab_load::driver::Canceller;

use super::*;

#[test]
fn a_cancelled_statement_ends_and_its_connection_lives() {
    with_server(|access| async move {
        // A lone SLEEP would answer that it was woken.
        let sleep = "SELECT SLEEP(20), 'abc' FROM (SELECT 1 UNION SELECT 2) t";
        let mut session = connect(&access, &[sleep]).await;
        for request in [prepared(0), text(sleep)] {
            let canceller = session.canceller();
            let cancelling = async {
                tokio::time::sleep(Duration::from_millis(300)).await;
                canceller.cancel().await.expect("taken");
            };
            let (result, ()) = tokio::join!(session.run(&request), cancelling);
            let failure = result.expect_err("interrupted");
            assert_eq!((failure.class, failure.code.as_deref()), (ErrorClass::Timeout, Some("1317")));
        }
        canceller_of_an_idle_session_does_no_harm(&mut session).await;
    });
}

async fn canceller_of_an_idle_session_does_no_harm(session: &mut MysqlSession) {
    session.canceller().cancel().await.expect("taken");
    for _ in 0..3 {
        assert_eq!(run(session, "SELECT 1").await.expect("not interrupted").rows, 1);
    }
}

/// How many connections the server has been asked for.
async fn connections(session: &mut MysqlSession) -> u32 {
    let row = row(session, "SHOW GLOBAL STATUS LIKE 'Connections'").await;
    row[1].as_deref().expect("a count").parse().expect("a number")
}

#[test]
fn cancels_share_a_connection_that_is_opened_anew_when_it_was_lost() {
    with_server(|access| async move {
        let driver = Mysql::new(access.clone(), Arc::new([])).expect("sound").for_worker();
        let (mut one, mut two) =
            (driver.connect().await.expect("connected"), driver.connect().await.expect("connected"));
        driver.attend().await;
        let before = connections(&mut one).await;
        for session in [&one, &two, &one] {
            session.canceller().cancel().await.expect("taken");
        }
        assert_eq!(connections(&mut one).await, before);
        // A server ends connections that were idle for long.
        let newest = "SELECT MAX(id) FROM information_schema.processlist WHERE user = SUBSTRING_INDEX(USER(), '@', 1) AND id <> CONNECTION_ID()";
        let killer = row(&mut two, newest).await[0].clone().expect("a number");
        run(&mut two, &format!("KILL CONNECTION {killer}")).await.expect("killed");
        one.canceller().cancel().await.expect("taken by a new one");
        assert_eq!(connections(&mut one).await, before + 1);
        driver.leave().await;
        let others = "SELECT COUNT(*) FROM information_schema.processlist WHERE user = SUBSTRING_INDEX(USER(), '@', 1) AND id <> CONNECTION_ID()";
        while row(&mut two, others).await != some(&["1"]) {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    });
}
