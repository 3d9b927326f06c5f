import type { AnswerRequest } from '../../core/answer/endpoint/endpoint.ts'
import { textOf } from '../../core/answer/endpoint/text-model.ts'
import type { Leaving, LeavingOf } from '../../core/answer/upstream/leaving.ts'
import { BrimError } from '../../core/kit/base/errors.ts'
import type { Disclosure, DisclosureList } from '../../core/wire/protocol/disclosures.ts'
import type { DisclosureEntry, DisclosureLedger } from './ledger.ts'
import { textOfRequest } from './request-text.ts'

/** An answer in progress of the device's own clients: its mode, and why so. */
interface OpenAnswer extends Pick<Disclosure, 'mode' | 'reason' | 'rule'> {
  /** Of a way out. */
  hasEntry?: boolean
}

/** Of what no request of the device's own clients has begun: jobs, probes of new bundles, measurements. */
const ofJob = { mode: null, reason: 'job', rule: null } as const

/**
 * The one writer of the ledger. Whatever sends content of answers from this device takes this object, and tells it before it sends:
 * an entry is on disk before the bytes are on their way. Where the disk stores nothing, text stays here; hidden states, and answers of
 * the device alone, go on: their entries wait in memory, and the list says so.
 */
export class Disclosures {
  readonly #ledger: DisclosureLedger
  readonly #answers = new Map<number, OpenAnswer>()
  #reportedTo: readonly string[] = []

  constructor(ledger: DisclosureLedger) {
    this.#ledger = ledger
  }

  /** Telemetry, with sums of tokens, goes to these hosts from now on. */
  reportTo(hosts: readonly string[]): void {
    this.#reportedTo = hosts
  }

  /** An answer begins. @returns its number; `end` completes its entries */
  begin(context: OpenAnswer): { readonly answer: number; end(): void } {
    const answer = this.#ledger.nextAnswer()
    const begun = { ...context }
    this.#answers.set(answer, begun)
    return {
      answer,
      end: () => {
        const hosts = this.#reportedTo
        const entry = this.#newEntry(hosts.length > 0 ? 'counts' : 'nothing', null, hosts.join(', ') || null, answer)
        this.#answers.delete(answer)
        if (!begun.hasEntry) this.#ledger.store(Object.assign(entry, { state: 'ended' }))
      },
    }
  }

  /** Of an endpoint whose requests take text to another machine. */
  text(way: 'server' | 'bridge' | 'sketches' | 'slmServer'): LeavingOf {
    return (request) => this.#leaving(way, request.disclosed?.answer, () => charactersOf(request))
  }

  /** Of a job, whose result has text: what it was made of came from there. */
  job(): Leaving {
    return this.#leaving('job', undefined, () => 0)
  }

  /** Of a HAT session. @param url of the bridge's data plane @param answer its number; undefined: of a job */
  states(url: string, answer: number | undefined): { rows(rows: number, bytes: number): void; ended(): void } {
    let entry: DisclosureEntry | undefined
    const sent = { rows: 0, bytes: 0 }
    return {
      rows: (rows, bytes) => {
        sent.rows += rows
        sent.bytes += bytes
        entry ??= this.#newEntry('states', 'hat', new URL(url).host, answer)
        if (sent.rows <= entry.rows && sent.bytes <= entry.bytes) return
        // Ahead of what is sent, so that not every frame is a write.
        entry.rows = Math.max(sent.rows, 2 * entry.rows)
        entry.bytes = Math.max(sent.bytes, 2 * entry.bytes)
        this.#wentOut(answer)
        this.#ledger.store(entry)
      },
      ended: () => {
        if (entry) this.#ledger.store(Object.assign(entry, sent, { state: 'ended' }))
        entry = undefined
      },
    }
  }

  /** @throws what SQLite throws */
  list(query: Parameters<DisclosureLedger['list']>[0]): DisclosureList {
    return { recording: this.#ledger.recording, disclosures: this.#ledger.list(query) }
  }

  /** @param characters of what the destination reads */
  #leaving(way: Disclosure['way'], answer: number | undefined, characters: () => number): Leaving {
    const entries = new Map<string, DisclosureEntry>()
    return {
      request: ({ host }, bytes) => {
        const known = entries.get(host)
        const entry = known ?? this.#newEntry('text', way, host, answer)
        const count = (factor: 1 | -1) => {
          entry.requests += factor
          entry.bytes += factor * bytes
        }
        count(1)
        // A request without a body asks for the rest of an answer.
        if (bytes > 0) entry.characters = characters()
        if (!this.#ledger.store(entry)) {
          count(-1)
          if (!known) this.#ledger.forget(entry)
          const { failure } = this.#ledger.recording
          throw new BrimError('DISCLOSURE_UNRECORDED', `text is not sent to ${host}, because it cannot be recorded: ${failure}`, {
            hint: 'free space on the disk of the state folder; private and local answers go on',
          })
        }
        this.#wentOut(answer)
        // The last one that was asked is the one that answers.
        entries.delete(host)
        entries.set(host, entry)
        return () => count(-1)
      },
      received(tokens) {
        const entry = [...entries.values()].at(-1)
        if (entry) entry.tokens = (entry.tokens ?? 0) + tokens
      },
      ended: () => {
        for (const entry of entries.values()) this.#ledger.store(Object.assign(entry, { state: 'ended' }))
      },
    }
  }

  #wentOut(answer: number | undefined): void {
    const begun = this.#answers.get(answer ?? 0)
    if (begun) begun.hasEntry = true
  }

  #newEntry(
    content: Disclosure['content'],
    way: Disclosure['way'],
    destination: string | null,
    number?: number,
  ): DisclosureEntry {
    const { mode, reason, rule } = this.#answers.get(number ?? 0) ?? ofJob
    const amounts = { requests: 0, characters: 0, tokens: null, rows: 0, bytes: 0 }
    const answer = number ?? this.#ledger.nextAnswer()
    return { answer, atMs: this.#ledger.nowMs(), state: 'open', content, way, destination, mode, reason, rule, ...amounts }
  }
}

const charactersOf = (request: AnswerRequest): number =>
  textOfRequest(request).length + (request.answered ? textOf(request.answered).length : 0)
