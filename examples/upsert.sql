-- Upsert: the latest state of every aircraft, from a feed that only gets new rows.
--
-- Begins from the table `flights` (python -m examples.load). Everything it makes is in the
-- schema `upsert`; each run drops it first.

DROP SCHEMA IF EXISTS upsert CASCADE;
CREATE SCHEMA upsert;
USE upsert;

-- The rows for the feed: flights that departed, with the scheduled time of departure.
CREATE VIEW departures AS
SELECT
    month, tailnum, timestampadd(MINUTE, minute, time_hour) AS departs,
    carrier, flight, origin, dest
FROM default.flights
WHERE dep_time IS NOT NULL;

CREATE TABLE feed (
    month INT, tailnum TEXT, departs TIMESTAMP, carrier TEXT, flight INT, origin TEXT, dest TEXT
);

-- Runs once for every commit of the feed. In the body, `feed` has the rows of that commit. The
-- DELETE and the INSERT are one commit: no reader sees one without the other.
CREATE CONTINUAL TASK aircraft (
    tailnum TEXT, departs TIMESTAMP, carrier TEXT, flight INT, origin TEXT, dest TEXT
) ON INPUT feed AS (
    DELETE FROM aircraft WHERE tailnum IN (SELECT tailnum FROM feed);
    INSERT INTO aircraft
    SELECT tailnum, last.departs, last.carrier, last.flight, last.origin, last.dest
    FROM (
        SELECT tailnum, max(struct(departs, carrier, flight, origin, dest)) AS last
        FROM feed
        GROUP BY tailnum
    );
);

INSERT INTO feed SELECT * FROM departures WHERE month = 1;
SELECT count(*) AS aircraft FROM aircraft;
SELECT * FROM aircraft WHERE tailnum = 'N14228';

INSERT INTO feed SELECT * FROM departures WHERE month = 2;
SELECT count(*) AS aircraft FROM aircraft;
SELECT * FROM aircraft WHERE tailnum = 'N14228';

INSERT INTO feed SELECT * FROM departures WHERE month = 3;
INSERT INTO feed SELECT * FROM departures WHERE month = 4;
INSERT INTO feed SELECT * FROM departures WHERE month = 5;
INSERT INTO feed SELECT * FROM departures WHERE month = 6;
INSERT INTO feed SELECT * FROM departures WHERE month = 7;
INSERT INTO feed SELECT * FROM departures WHERE month = 8;
INSERT INTO feed SELECT * FROM departures WHERE month = 9;
INSERT INTO feed SELECT * FROM departures WHERE month = 10;
INSERT INTO feed SELECT * FROM departures WHERE month = 11;
INSERT INTO feed SELECT * FROM departures WHERE month = 12;

-- The feed has every departure of the year, the output one row for each aircraft.
SELECT count(*) AS departures FROM feed;
SELECT count(*) AS aircraft FROM aircraft;
SELECT * FROM aircraft WHERE tailnum = 'N14228';
