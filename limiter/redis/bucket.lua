-- SPDX-License-Identifier: Apache-2.0
--
-- A token bucket by the generic cell rate algorithm. The theoretical arrival
-- time, at which the bucket is full again, is kept as a fraction:
--
--   full at = since + taken / rate
--
-- so that no part of a token is lost, however often the bucket is asked, and
-- whatever the rate. Text before this one sets `now`, in microseconds, and
-- `expires`, whether values expire.
--
-- KEYS[1]  the bucket
-- KEYS[2]  the ID of a charge or a return, if it has one
-- KEYS[3]  an ID that need not be remembered any more, if there is one
-- ARGV     what to do: take; charge (always, but not below the floor); give
--          tokens
--          rate, tokens/s
--          burst, tokens
--          debt, tokens; above 0 events borrow, else they wait for their own
--          patience, seconds that the event may wait
--          floor, tokens
--          keep, milliseconds for which values are kept at least
--
-- Returns whether the tokens were taken, the microseconds to wait, or after
-- how many to ask again (-1: never), and the tokens left.

local key, what = KEYS[1], ARGV[1]
local n, rate, burst = tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4])
local debt, patience, floor = tonumber(ARGV[5]), tonumber(ARGV[6]), tonumber(ARGV[7])
local keep = tonumber(ARGV[8])

local format, size = '>Bddddd', 41
local never = math.huge

local since, at, taken = now, now, 0
local changed = false
local state = redis.call('GET', key)
if state then
	if #state ~= size or string.byte(state) ~= 1 then
		return redis.error_reply('HEADGATE not a bucket of this release')
	end
	local version, ruled, held
	version, since, at, taken, ruled, held = struct.unpack(format, state)
	if now < at then -- the clock went back: the bucket goes on from there, also if it refuses this event
		since, at, changed = since - (at - now), now, true
	end
	if ruled ~= rate or held ~= burst then
		-- The rule changed at an unknown time since the last write: the slower
		-- of both counts since then.
		local level = held - taken + ruled * ((at - since) / 1e6) + math.min(ruled, rate) * ((now - at) / 1e6)
		-- Under a lower limit or burst, a debt that is deeper than a charge can make
		-- becomes less in proportion, so that it does not take longer to pay. After a
		-- rate of 0, which may have been any before that, it is what a charge can make.
		local less = math.min(rate / ruled, burst / held)
		if ruled == 0 then
			less = 0
		end
		if rate > 0 and less < 1 then
			level = math.max(level, math.min(level * less, floor))
		end
		since, taken, changed = now, burst - math.min(level, held, burst), true
	end
end

local level = burst - taken + rate * ((now - since) / 1e6)
if level >= burst then
	level, since, taken = burst, now, 0
elseif taken > 2 ^ 30 or taken < -2 ^ 30 then
	since, taken = now, burst - level -- before its numbers become too large
end

-- fill_time returns how many microseconds the bucket needs to fill in the tokens
-- that are short. If they are so few that rounding may have made them, it
-- returns 0.
local function fill_time(short)
	if short <= 1e-9 + (burst + math.abs(taken)) * 2 ^ -50 then
		return 0
	end
	return math.max(math.ceil(short / rate * 1e6), 1)
end

local function answer(ok, wait)
	if wait >= 2 ^ 53 then
		wait = -1
	end
	return { ok, wait, string.format('%.17g', level) }
end

local function set(name, value, milliseconds, ...)
	if expires then
		return redis.call('SET', name, value, 'PX', string.format('%.0f', milliseconds), ...)
	end
	return redis.call('SET', name, value, ...)
end

local function save()
	if level >= burst then
		redis.call('DEL', key) -- a bucket that is full is the same as none
		return
	end
	-- It is kept longer than it takes to fill, because the next rule may be
	-- slower.
	local idle = math.max(math.ceil((burst - level) / rate * 1e3) + 1, keep)
	set(key, struct.pack(format, 1, since, now, taken, rate, burst), math.min(idle, 2 ^ 40))
end

local function move(tokens)
	taken, level = taken + tokens, level - tokens
	save()
end

if what ~= 'take' then
	if KEYS[3] then
		redis.call('DEL', KEYS[3])
	end
	if KEYS[2] and not set(KEYS[2], '', keep, 'NX') then
		return answer(1, 0) -- it was done already
	end
	move(what == 'give' and -n or math.min(n, math.max(level - floor, 0)))
	level = math.min(level, burst)
	return answer(1, 0)
end

local short, again = n - level, 0
if debt > 0 then
	again = fill_time(short - debt)
	if fill_time(n - burst - debt) > 0 then
		again = never -- it would not do even if the bucket were full
	end
	short = -level
elseif n > burst then
	again = never
end
local wait = fill_time(short)
if wait >= 2 ^ 53 then
	again = never
end
if n > 0 then
	again = math.max(again, fill_time(short - rate * patience))
else
	wait, again = 0, 0 -- it only asks how many are left
end
if again > 0 then
	if changed then
		save()
	end
	return answer(0, again)
end
if n > 0 or changed then
	move(n)
end
return answer(1, math.min(wait, math.ceil(patience * 1e6)))
