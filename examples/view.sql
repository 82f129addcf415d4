-- Materialized view: how late each airline is, kept up to date and corrected by every change.
--
-- Unlike a task's output, a view always equals its query on the present tables: if a row is
-- corrected or deleted, or a name changes, the view changes too.
-- Begins from the tables `flights` and `airlines` (python -m examples.load). Everything it makes
-- is in the schema `views`; each run drops it first.

DROP SCHEMA IF EXISTS views CASCADE;
CREATE SCHEMA views;
USE views;

CREATE TABLE departures AS
SELECT month, day, carrier, flight, dep_delay
FROM default.flights
WHERE dep_time IS NOT NULL AND month = 1;

CREATE TABLE airlines AS SELECT * FROM default.airlines;

CREATE MATERIALIZED VIEW punctuality AS
SELECT a.name AS airline, count(*) AS departures, sum(d.dep_delay) AS minutes_late
FROM departures AS d JOIN airlines AS a ON d.carrier = a.carrier
GROUP BY a.name;

-- A plain view over it stores nothing and is computed when it is read.
CREATE VIEW worst AS
SELECT airline, departures, minutes_late / departures AS average
FROM punctuality
WHERE departures > 100;

SELECT airline, departures, round(average, 2) AS average FROM worst ORDER BY average DESC LIMIT 3;

INSERT INTO departures
SELECT month, day, carrier, flight, dep_delay
FROM default.flights
WHERE dep_time IS NOT NULL AND month = 2;

-- Corrections: flights that left a day late are removed, and an airline has a new name.
DELETE FROM departures WHERE dep_delay > 1000;
UPDATE airlines SET name = 'Southwest Airlines Co.' WHERE carrier IN ('WN', 'FL');

SELECT airline, departures, round(average, 2) AS average FROM worst ORDER BY average DESC LIMIT 3;
SELECT * FROM punctuality ORDER BY airline;
