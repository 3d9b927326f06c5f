import { BrimError } from '../../core/base/errors.ts'
import { DeviceStream } from '../../core/draft/device-stream.ts'
import { draftTokens } from '../../core/draft/draft-tokens.ts'
import type { Drafter } from '../../core/draft/drafter.ts'
import type { Part } from '../../core/engine/contract.ts'
import { answerBudget } from '../../core/engine/generate.ts'
import { chooseToken, type Sampling } from '../../core/engine/sampler.ts'
import type { SharedHead } from '../../core/engine/shared-head.ts'
import type { Dims } from '../../core/model/manifest.ts'
import { acceptDraft } from '../../core/policy/hat/accept.ts'
import { nextChunk } from '../../core/policy/hat/chunk-size.ts'
import type { DeviceSpeed } from '../../core/policy/hat/device-speed.ts'
import { draftRoom } from '../../core/policy/hat/draft-stop.ts'
import type { Wire } from '../../core/protocol/frame.ts'
import type { LinkSession, SessionWish } from '../link/link-session.ts'
import { leastTokens, type PrefixMemory } from './prefix-memory.ts'
import { isLinkFailure, type ReopenOptions, reopen } from './reopen.ts'
import { HatCounters, type HatSummary } from './summary.ts'
import { Uplink } from './uplink.ts'

export interface HatOptions extends ReopenOptions {
  /** A session, beginning with what a bridge still holds where it does. */
  open(signal: AbortSignal, wish?: SessionWish): Promise<LinkSession>
  /** How states travel up. As int8 the answer may be another than the reference's. */
  readonly wire: Wire
  /** Whether verifications are all of one length, so that it tells nothing of the draft's. */
  readonly padding: boolean
  readonly prefixes: PrefixMemory
  readonly dims: Dims
  readonly input: Part
  readonly head: SharedHead
  /** Takes what this device's steps took. */
  readonly speed: DeviceSpeed
  createDrafter(sampling: Sampling): Drafter
  /** η of HAT Eq. 5. */
  readonly threshold: number
  /** Most tokens drafted per round, beside the bridge's own limit. */
  readonly draftLimit: number
}

export interface HatRequest {
  /** Who asks: nobody begins with what another client asked. */
  readonly client: string
  readonly prompt: readonly number[]
  readonly maxTokens: number
  readonly sampling: Sampling
  /** Tokens that end the answer; the one that does is part of it. */
  readonly eos: readonly number[]
  /** When the request came, by the session's clock. */
  readonly acceptedMs: number
}

/** Tokens that became certain at once: the first after prefill, then those of each verification. */
export interface HatRound {
  readonly tokens: readonly number[]
  readonly drafted: number
  readonly accepted: number
  /** Of the answer up to here. */
  summary(): HatSummary
}

/**
 * One private answer by the split model (HAT): prefill in chunks, then rounds of drafting here and verifying at the
 * bridge. Ends at an end-of-text token or after `maxTokens`. Where link or bridge dies on the way, the answer goes on at
 * another session with the same tokens. Whoever stops early aborts the signal or ends the iteration: the step under way
 * ends, then both sides free their KV.
 * @throws BrimError CONTEXT_OVERFLOW, REQUEST_INVALID before any work; OUT_OF_MEMORY, RUNTIME_FAILED, CANCELED, LINK_LOST; what `open` throws
 */
export async function* answerByHat(
  options: HatOptions,
  request: HatRequest,
  signal: AbortSignal,
): AsyncGenerator<HatRound, void> {
  answerBudget(request.prompt, request.maxTokens, options.dims)
  const { prefixes, wire, padding } = options
  const resume = prefixes.find(request.client, request.prompt)
  const session = await openFirst(options, { resume, wire }, signal)
  if (resume && session.held === 0 && session.bridge === resume.bridge) prefixes.forget(resume.handle)
  const stream = new DeviceStream(options.input, options.dims.hidden, request.prompt.length)
  const again = () => reopen({ ...options, open: (until) => options.open(until, { wire }) }, signal)
  const verifyRows = padding ? Math.min(options.draftLimit, session.draftLimit) + 1 : undefined
  const uplink = new Uplink(session, stream.shallow, again, verifyRows)
  const leave = () => uplink.close()
  signal.addEventListener('abort', leave, { once: true })
  let drafter: Drafter | undefined
  let hat: HatSession | undefined
  try {
    drafter = options.createDrafter(request.sampling)
    hat = new HatSession(options, request, uplink, stream, drafter, session.held, signal)
    yield* hat.run()
  } finally {
    signal.removeEventListener('abort', leave)
    if (resume && session.moved) prefixes.forget(resume.handle)
    if (hat?.settled && !signal.aborted && stream.ids.length >= leastTokens) {
      const ids = [...stream.ids]
      void uplink.leave(ids.length).then((kept) => {
        if (kept) prefixes.remember(request.client, ids, kept)
      })
    } else {
      uplink.close()
    }
    drafter?.release()
    stream.release()
  }
}

/** The first session. A link that breaks just now is no worse than one that breaks later; no bridge at all is told at once. */
async function openFirst(options: HatOptions, wish: SessionWish, signal: AbortSignal): Promise<LinkSession> {
  try {
    return await options.open(signal, wish)
  } catch (error) {
    if (signal.aborted || !isLinkFailure(error)) throw error
    return reopen({ ...options, open: (until) => options.open(until, wish) }, signal)
  }
}

class HatSession {
  /** Both sides hold the same positions, and nothing is under way. */
  settled = false
  readonly #options: HatOptions
  readonly #request: HatRequest
  readonly #uplink: Uplink
  readonly #stream: DeviceStream
  readonly #drafter: Drafter
  readonly #signal: AbortSignal
  readonly #openedMs: number
  readonly #held: number
  readonly #counters = new HatCounters()

  constructor(
    options: HatOptions,
    request: HatRequest,
    uplink: Uplink,
    stream: DeviceStream,
    drafter: Drafter,
    held: number,
    signal: AbortSignal,
  ) {
    this.#options = options
    this.#request = request
    this.#uplink = uplink
    this.#stream = stream
    this.#drafter = drafter
    this.#held = held
    this.#signal = signal
    this.#openedMs = options.clock.nowMs()
  }

  async *run(): AsyncGenerator<HatRound, void> {
    const { prompt, maxTokens, eos, acceptedMs } = this.#request
    const { clock } = this.#options
    let pending = await this.#prefill()
    this.#counters.first(acceptedMs, this.#openedMs, clock.nowMs())
    this.settled = true
    yield { tokens: [pending], drafted: 0, accepted: 0, summary: () => this.#summary() }
    while (this.#counters.tokens < maxTokens && !eos.includes(pending)) {
      this.settled = false
      const startedMs = clock.nowMs()
      const { failovers } = this.#uplink
      const position = prompt.length + this.#counters.tokens - 1
      const draft = await this.#draft(pending, position)
      await this.#uplink.send(position, position + 1 + draft.length, 1 + draft.length)
      const choices = await this.#choose(position + 1)
      const { accepted, tokens } = acceptDraft(draft, choices)
      this.#keep(position + 1 + accepted)
      const end = tokens.findIndex((token) => eos.includes(token))
      const added = end < 0 ? tokens : tokens.slice(0, end + 1)
      this.#counters.round(added.length, draft.length, accepted, clock.nowMs())
      // What a failover takes is nobody's draft.
      if (this.#uplink.failovers === failovers) this.#drafter.ended?.(added.length, (clock.nowMs() - startedMs) / 1_000)
      pending = added.at(-1)!
      this.settled = true
      yield { tokens: added, drafted: draft.length, accepted, summary: () => this.#summary() }
    }
  }

  #summary(): HatSummary {
    const { bytesUp, bytesDown, wideRows, failovers, terms } = this.#uplink
    const { prefillTokensPerS = null, draftStepS } = this.#options.speed
    const { upBytesPerS = null, downBytesPerS = null } = terms.rates
    const draftStepMs = draftStepS === undefined ? null : draftStepS * 1_000
    const measured = { upBytesPerS, downBytesPerS, prefillTokensPerS, draftStepMs }
    const drafting = this.#drafter.report?.() ?? null
    return this.#counters.summary({
      wire: this.#options.wire,
      drafting,
      reusedTokens: this.#held,
      bytesUp,
      bytesDown,
      wideRows,
      failovers,
      rates: measured,
    })
  }

  /** While the bridge computes one chunk the next is computed here; only the last position's deep state comes back. */
  async #prefill(): Promise<number> {
    const { prompt } = this.#request
    // What the bridge holds is computed here all the same: decoding needs it, and so would another bridge.
    const { frameTokens } = this.#uplink.terms
    for (let from = 0; from < this.#held; from += frameTokens) {
      await this.#feedTimed(prompt.slice(from, Math.min(from + frameTokens, this.#held)))
      await this.#drafter.catchUp(this.#stream)
    }
    for (let from = this.#held, to: number; from < prompt.length; from = to) {
      const { chunkTokens, frameTokens } = this.#uplink.terms
      to = from + nextChunk(prompt.length - from, chunkTokens, frameTokens)
      await this.#feedTimed(prompt.slice(from, to))
      await this.#uplink.send(from, to, to === prompt.length ? 1 : 0)
      await this.#drafter.catchUp(this.#stream)
    }
    const [first] = await this.#choose(prompt.length)
    return first!
  }

  /** Feeds the pending token and drafts on from it. @returns the drafted tokens, whose rows stand ready too */
  async #draft(pending: number, position: number): Promise<number[]> {
    const { threshold, draftLimit, dims, speed, clock } = this.#options
    const { maxTokens, eos } = this.#request
    await this.#feed([pending])
    const remaining = maxTokens - this.#counters.tokens
    const limit = draftRoom(Math.min(draftLimit, this.#uplink.terms.draftLimit), remaining, position, dims.contextLimit)
    const startedMs = clock.nowMs()
    const draft = await draftTokens(this.#drafter, this.#stream, (tokens) => this.#feed(tokens), { threshold, limit }, eos)
    speed.drafted(draft.length, (clock.nowMs() - startedMs) / 1_000)
    return draft
  }

  /** Waits for the deep rows under way and chooses after each; the first choice stands at `position`. */
  async #choose(position: number): Promise<number[]> {
    const deep = await this.#uplink.settle()
    this.#checkCanceled()
    this.#stream.deep.append(deep)
    const { sampling } = this.#request
    return this.#options.head.read(deep, (logits, row) => chooseToken(logits, sampling, position + row))
  }

  /** Of a prompt: how fast that goes is what the bridge sizes chunks by. */
  async #feedTimed(tokens: readonly number[]): Promise<void> {
    const { clock, speed } = this.#options
    const startedMs = clock.nowMs()
    await this.#feed(tokens)
    speed.prefilled(tokens.length, (clock.nowMs() - startedMs) / 1_000)
  }

  /** Input step: the shallow rows of these tokens, which follow those that are there. */
  async #feed(tokens: readonly number[]): Promise<void> {
    this.#checkCanceled()
    await this.#stream.feed(tokens)
  }

  /** All but the first `length` positions are gone; the bridge drops its own with the next frame's base. */
  #keep(length: number): void {
    this.#stream.truncate(length)
    this.#drafter.truncate(length)
  }

  #checkCanceled(): void {
    if (this.#signal.aborted) throw new BrimError('CANCELED', 'the answer was stopped')
  }
}
