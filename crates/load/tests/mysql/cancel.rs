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
            let canceller = session.canceller().expect("MySQL cancels");
            let cancelling = async {
                tokio::time::sleep(Duration::from_millis(300)).await;
                canceller.cancel().await.expect("taken");
            };
            let (result, ()) = tokio::join!(ask(&mut session, &request), cancelling);
            let failure = result.expect_err("interrupted");
            assert_eq!((failure.class, failure.code.as_deref()), (ErrorClass::Timeout, Some("1317")));
        }
        canceller_of_an_idle_session_does_no_harm(&mut session).await;
    });
}

async fn canceller_of_an_idle_session_does_no_harm(session: &mut MysqlSession) {
    session.canceller().expect("MySQL cancels").cancel().await.expect("taken");
    for _ in 0..3 {
        assert_eq!(run(session, "SELECT 1").await.expect("not interrupted").rows, 1);
    }
}

/// The number of the newest connection of this session's user besides this one, and how many others it has.
async fn others(session: &mut MysqlSession) -> (u64, u64) {
    let text = "SELECT COALESCE(MAX(id), 0), COUNT(*) FROM information_schema.processlist \
                WHERE user = SUBSTRING_INDEX(USER(), '@', 1) AND id <> CONNECTION_ID()";
    let row = row(session, text).await;
    let number = |i: usize| row[i].as_deref().expect("a number").parse().expect("a number");
    (number(0), number(1))
}

#[test]
fn cancels_share_a_connection_that_is_opened_anew_when_it_was_lost() {
    with_server(|access| async move {
        // A user of its own: other tests run beside this one.
        let mut setup = connect(&access, &[]).await;
        run(&mut setup, "CREATE OR REPLACE USER t_cancel@localhost IDENTIFIED BY 'x'").await.expect("created");
        let access =
            Access { user: "t_cancel".to_owned(), password: Some("x".to_owned()), database: String::new(), ..access };
        let driver = Mysql::new(access, Arc::new([])).expect("sound").for_worker();
        let (one, mut two) = (driver.connect().await.expect("let in"), driver.connect().await.expect("let in"));
        driver.attend().await;
        let (killer, n_others) = others(&mut two).await;
        assert_eq!(n_others, 2);
        for session in [&one, &two, &one] {
            session.canceller().expect("MySQL cancels").cancel().await.expect("taken");
        }
        assert_eq!(others(&mut two).await, (killer, 2));
        // A server ends connections that were idle for long.
        run(&mut two, &format!("KILL CONNECTION {killer}")).await.expect("killed");
        one.canceller().expect("MySQL cancels").cancel().await.expect("taken by a new one");
        assert!(others(&mut two).await.0 > killer);
        driver.leave().await;
        while others(&mut two).await.1 != 1 {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        run(&mut setup, "DROP USER t_cancel@localhost").await.expect("dropped");
    });
}
