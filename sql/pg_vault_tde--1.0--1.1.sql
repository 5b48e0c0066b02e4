/* pg_vault_tde--1.0--1.1.sql */

-- complain if the script is sourced in psql rather than through ALTER EXTENSION
\echo Use "ALTER EXTENSION pg_vault_tde UPDATE TO '1.1'" to load this file. \quit

