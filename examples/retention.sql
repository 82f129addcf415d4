-- Retention window: the requests of the last hour, and counts over them.
--
-- Needs no data. Everything it makes is in the schema `retention`; each run drops it first.

DROP SCHEMA IF EXISTS retention CASCADE;
CREATE SCHEMA retention;
USE retention;

CREATE TABLE requests (at TIMESTAMP, path TEXT, status INT);

-- now() is T, the time of the commit: a row is inserted if it is not too old, and deleted at the
-- first T at which it is. TRIM EVERY adds a T once a minute if there is no commit, on reads or by
-- `ctsql run`.
CREATE CONTINUAL TASK last_hour
FROM RETAIN requests WHILE (at > now() - INTERVAL 1 HOUR)
WITH (TRIM EVERY = '1 minute');

-- A view over the window changes when rows expire.
CREATE MATERIALIZED VIEW errors AS
SELECT path, count(*) AS requests, count_if(status >= 500) AS errors
FROM last_hour
GROUP BY path;

-- This request expires in a second. Of the next five, one is too old when it is inserted.
INSERT INTO requests SELECT now() - INTERVAL '59:59' MINUTE TO SECOND, '/pay', 500;
INSERT INTO requests
SELECT now() - make_interval(0, 0, 0, 0, 0, minutes), path, status
FROM VALUES
    (90, '/pay', 500), (45, '/pay', 200), (30, '/', 200), (10, '/pay', 502), (1, '/', 200)
    AS r (minutes, path, status);

SELECT * FROM errors ORDER BY path;
INSERT INTO requests SELECT now(), '/', 200;
SELECT * FROM errors ORDER BY path;

SELECT path, status, timestampdiff(MINUTE, at, now()) AS minutes_ago
FROM last_hour
ORDER BY minutes_ago DESC;

-- Inserted rows (diff 1) and expired rows (diff -1), T by T.
SUBSCRIBE TO last_hour FROM 0 UP TO NOW;

-- The table of requests keeps all rows: DELETE those that you do not need.
SELECT count(*) AS requests FROM requests;
