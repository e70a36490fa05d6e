-- What a branch has moved lately: an aggregate beside the transfers.
\set branch random(1, :scale)
SELECT count(*), sum(delta) FROM pgbench_history WHERE bid = :branch;
SELECT aid, abalance FROM pgbench_accounts WHERE bid = :branch ORDER BY abalance DESC LIMIT 10;
