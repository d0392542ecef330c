-- One row per stream of events on a broker: everything up to "position" is acknowledged by it. "stream_created"
-- tells a stream from one of the same name made anew, which is empty and filled again from the beginning.
create table lethelog.relay (
    name           text   primary key,
    position       bigint not null check (position >= 0),
    stream_created text   not null
);
