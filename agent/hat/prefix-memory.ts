import type { Clock } from '../../core/kit/base/clock.ts'
import type { DeviceStream } from '../../core/model/draft/device-stream.ts'
import type { PrefixHandle } from '../link/link-session.ts'

/** Sending fewer tokens again costs less than caching them. */
export const minPrefixTokens = 16
/** Of all clients together. */
const maxPrefixes = 32
/** Of the streams on the device. Without its stream, the device computes a prefix again. */
const maxStreamBytes = 64 * 2 ** 20

/** An answer that has ended, or is about to. */
export interface LeftPrefix {
  /** Gives its stream away; it may be released at once. */
  keep(stream: DeviceStream): void
}

/** What an answer begins with. Its stream belongs to the caller. */
interface Beginning {
  readonly resume: PrefixHandle | undefined
  readonly stream: DeviceStream | undefined
}

interface Entry {
  readonly client: string
  readonly ids: readonly number[]
  readonly sinceMs: number
  /** Settles when the bridge has said what it has cached, and the device has its stream. */
  readonly ended: Promise<void>
  resume: PrefixHandle | undefined
  stream: DeviceStream | undefined
}

/**
 * What earlier answers have left: the bridge's KV under random handles, and the streams of this device. Only the device can
 * recognise a prompt: the bridge has no tokens. A client never resumes the prefix of another client.
 */
export class PrefixMemory {
  readonly #clock: Clock
  readonly #expireMs: number
  #entries: Entry[] = []
  #isReleased = false

  /** @param expireMs lifetime of a cached prefix */
  constructor(clock: Clock, expireMs = 600_000) {
    this.#clock = clock
    this.#expireMs = expireMs
  }

  /**
   * The longest prefix of a prompt that is known. At least one position is left to compute. An answer that has just ended is
   * waited for: the next turn may be asked before the bridge has replied.
   */
  async find(client: string, prompt: readonly number[]): Promise<Beginning> {
    for (;;) {
      const [best] = this.#of(client)
        .map((entry) => ({ entry, length: Math.min(commonLength(entry.ids, prompt), prompt.length - 1) }))
        .filter(({ length }) => length >= minPrefixTokens)
        .sort((a, b) => b.length - a.length)
      if (!best) return { resume: undefined, stream: undefined }
      const { entry, length } = best
      await entry.ended
      if (entry.resume || entry.stream) return beginningOf(entry, length, prompt.length)
      this.#drop((each) => each === entry)
    }
  }

  /** @param ids of every verified position @param cached what the bridge caches of them; undefined: nothing */
  remember(client: string, ids: readonly number[], cached: Promise<PrefixHandle | undefined>): LeftPrefix {
    let onKept = () => {}
    const kept = new Promise<void>((resolve) => {
      onKept = resolve
    })
    const both = Promise.all([cached, kept])
    const ended = both.then(([resume]) => {
      entry.resume = resume
      this.#tidy(entry)
    })
    const entry: Entry = { client, ids: [...ids], sinceMs: this.#clock.nowMs(), ended, resume: undefined, stream: undefined }
    this.#entries.unshift(entry)
    return {
      keep: (stream) => {
        if (this.#isReleased || !this.#entries.includes(entry)) stream.release()
        else entry.stream = stream
        onKept()
      },
    }
  }

  /** The bridge no longer has the handle. */
  forget(handle: string): void {
    for (const entry of this.#entries) if (entry.resume?.handle === handle) entry.resume = undefined
  }

  /** Frees all streams, also of answers that end later. */
  release(): void {
    this.#isReleased = true
    this.#drop(() => true)
  }

  #of(client: string): Entry[] {
    const afterMs = this.#clock.nowMs() - this.#expireMs
    this.#drop(({ sinceMs }) => sinceMs <= afterMs)
    return this.#entries.filter((entry) => entry.client === client)
  }

  /** An answer's stream makes those superfluous that it begins with. */
  #tidy({ client, ids, stream }: Entry): void {
    for (const other of this.#entries)
      if (stream && other.stream && other.stream !== stream && other.client === client)
        if (commonLength(other.ids, ids) === other.ids.length) releaseStream(other)
    let bytes = 0
    for (const entry of this.#entries) {
      bytes += entry.stream?.bytes ?? 0
      if (bytes > maxStreamBytes) releaseStream(entry)
    }
    const newest = this.#entries.slice(0, maxPrefixes)
    this.#drop((entry) => !newest.includes(entry))
  }

  #drop(isDropped: (entry: Entry) => boolean): void {
    for (const entry of this.#entries) if (isDropped(entry)) releaseStream(entry)
    this.#entries = this.#entries.filter((entry) => !isDropped(entry))
  }
}

function releaseStream(entry: Entry): void {
  entry.stream?.release()
  entry.stream = undefined
}

function beginningOf({ resume, stream }: Entry, length: number, promptTokens: number): Beginning {
  const own = Math.min(length, stream?.rows.line ?? 0)
  return {
    resume: resume && { ...resume, length: Math.min(length, resume.length) },
    stream: own >= minPrefixTokens ? stream?.copyOf(own, promptTokens) : undefined,
  }
}

function commonLength(a: readonly number[], b: readonly number[]): number {
  const end = Math.min(a.length, b.length)
  for (let at = 0; at < end; at++) if (a[at] !== b[at]) return at
  return end
}
