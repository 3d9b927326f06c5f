import { readFileSync } from 'node:fs'
import { uptime } from 'node:os'
import { clockIsSet } from './clock.ts'

/** What the clocks of a machine show. */
export interface ClockReading {
  /** Time of day, UTC ms. It may jump. */
  readonly wallMs: number
  /** Since the machine started, time in suspension included. */
  readonly upMs: number
  /** Id of the machine's start that `upMs` belongs to. */
  readonly boot: string
}

/** A time of day that does not follow jumps of the clock. Plain data: stored, it survives restarts. */
export interface SteadyTime {
  /** The newest time, UTC ms. */
  readonly ms: number
  readonly boot: string
  /** Later times are compared with the time that has passed since. `isSure`: false after a start with a doubtful clock. */
  readonly anchor: { readonly ms: number; readonly upMs: number; readonly isSure: boolean }
  /** The clock has jumped; it is believed if it stays there. */
  readonly doubt: { readonly gapMs: number; readonly sinceUpMs: number } | undefined
}

/** Smaller steps of the clock are followed at once. */
export const toleranceMs = 2_000
/** A jump is believed after it has stood for this long. */
export const confirmMs = 15 * 60_000
/**
 * A machine that starts again is believed to have been off for this long at most, before its clock has stood for `confirmMs`. A clock
 * that lost its time is years off.
 */
export const believedOffMs = 31 * 24 * 3_600_000

/**
 * The time of day after `then`. Within one start of the machine the time that has passed is known, so that a jump of the clock is
 * seen; after another start, only that the clock must not go back, nor be far ahead of the newest time before.
 * @param then undefined: there is none, and the clock is believed
 */
export function steadyTimeAfter(then: SteadyTime | undefined, now: ClockReading): SteadyTime {
  if (!then) return believed(now)
  const isSameBoot = isSameStart(then, now)
  const anchor = isSameBoot ? then.anchor : { ms: then.ms, upMs: now.upMs, isSure: false }
  const expectedMs = anchor.ms + Math.max(0, now.upMs - anchor.upMs)
  const gapMs = now.wallMs - expectedMs
  // A clock without battery starts in 1970, until it is set from the network.
  if (!clockIsSet(expectedMs) && clockIsSet(now.wallMs)) return believed(now)
  const isLost = clockIsSet(expectedMs) && !clockIsSet(now.wallMs)
  if (!isSameBoot && gapMs >= -toleranceMs && gapMs <= believedOffMs)
    return { ...believed(now), ms: Math.max(then.ms, now.wallMs) }
  if (Math.abs(gapMs) <= toleranceMs) return { ms: Math.max(then.ms, now.wallMs), boot: now.boot, anchor, doubt: undefined }
  const stands = isSameBoot && then.doubt && Math.abs(then.doubt.gapMs - gapMs) <= toleranceMs
  const doubt = stands ? then.doubt : { gapMs, sinceUpMs: now.upMs }
  if (!isLost && now.upMs - doubt.sinceUpMs >= confirmMs) return believed(now)
  return { ms: Math.max(then.ms, expectedMs), boot: now.boot, anchor, doubt }
}

/**
 * Whether both are of one start of the machine. A container that starts again can have the host's id and an uptime of its own, which
 * begins anew.
 */
const isSameStart = ({ boot, ms, anchor }: SteadyTime, now: Pick<ClockReading, 'boot' | 'upMs'>): boolean =>
  boot === now.boot && anchor.ms + now.upMs - anchor.upMs >= ms - 2 * toleranceMs

const believed = ({ wallMs, upMs, boot }: ClockReading): SteadyTime => ({
  ms: wallMs,
  boot,
  anchor: { ms: wallMs, upMs, isSure: true },
  doubt: undefined,
})

/** A jump of the clock that is believed now: stored times are on the old scale. */
export interface BelievedJump {
  readonly gapMs: number
  /** Older times are right: how much time had passed since was not known. */
  readonly sinceMs: number
}

export interface SteadyWallClockOptions {
  readonly read: () => ClockReading
  /** The time that was stored last; undefined: never. */
  readonly stored: SteadyTime | undefined
  /** The clock has jumped by `gapMs`; 0: it is back. */
  readonly onDoubt: (gapMs: number) => void
  /** Called before the first time on the new scale, `time`, is returned. */
  readonly onBelieved: (jump: BelievedJump, time: SteadyTime) => void
}

/** The time of day for stored deadlines: it passes as real time does, while the machine's clock jumps. */
export class SteadyWallClock {
  readonly #options: SteadyWallClockOptions
  #time: SteadyTime

  constructor(options: SteadyWallClockOptions) {
    this.#options = options
    // What the clock has done since is found by the first call of `now`.
    this.#time = options.stored ?? steadyTimeAfter(undefined, options.read())
  }

  /** UTC ms. */
  readonly nowMs = (): number => this.now().ms

  /** The time in the form in which it is stored. */
  now(): SteadyTime {
    const { onDoubt, onBelieved, read } = this.#options
    const before = this.#time
    const reading = read()
    this.#time = steadyTimeAfter(before, reading)
    const { anchor, doubt } = this.#time
    const gapMs = anchor.ms - before.anchor.ms - (anchor.upMs - before.anchor.upMs)
    const isSameBoot = isSameStart(before, reading)
    const sinceMs = before.anchor.isSure ? Number.NEGATIVE_INFINITY : before.anchor.ms
    if (isSameBoot && gapMs !== 0) onBelieved({ gapMs, sinceMs }, this.#time)
    else if (Math.abs((doubt?.gapMs ?? 0) - (before.doubt?.gapMs ?? 0)) > toleranceMs) onDoubt(doubt?.gapMs ?? 0)
    return this.#time
  }
}

/** @returns reads the clocks of this machine */
export function systemClocks(): () => ClockReading {
  const boot = bootId()
  return () => ({ wallMs: Date.now(), upMs: uptime() * 1_000, boot })
}

/** Where the system has none, each process counts as a start of the machine. */
function bootId(): string {
  try {
    return readFileSync('/proc/sys/kernel/random/boot_id', 'utf8').trim()
  } catch {
    return `${process.pid}-${Math.round(performance.timeOrigin)}`
  }
}
