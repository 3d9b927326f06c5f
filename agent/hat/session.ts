import { BrimError } from '../../core/base/errors.ts'
import { DeviceStream } from '../../core/draft/device-stream.ts'
import type { Drafter, TreeDrafter } from '../../core/draft/drafter.ts'
import type { Part } from '../../core/engine/contract.ts'
import { answerBudget } from '../../core/engine/generate.ts'
import { chooseToken, type Sampling } from '../../core/engine/sampler.ts'
import type { SharedHead } from '../../core/engine/shared-head.ts'
import type { Dims } from '../../core/model/manifest.ts'
import { acceptDraft } from '../../core/policy/hat/accept-draft.ts'
import { nextChunk } from '../../core/policy/hat/chunk-size.ts'
import type { DeviceSpeed } from '../../core/policy/hat/device-speed.ts'
import type { RoundTrip } from '../../core/policy/hat/draft-ahead-steps.ts'
import { maxDraftTokens } from '../../core/policy/hat/draft-stop.ts'
import type { DraftTree } from '../../core/policy/hat/draft-tree.ts'
import { rowBytes, type Wire } from '../../core/protocol/frame.ts'
import { type States, sliceStates } from '../../core/protocol/states.ts'
import type { EndpointFigures } from '../answer/figures.ts'
import type { LinkSession, SessionOptions } from '../link/link-session.ts'
import { Drafting } from './drafting.ts'
import { minPrefixTokens, type PrefixMemory } from './prefix-memory.ts'
import { isLinkFailure, type ReopenOptions, reopen } from './reopen.ts'
import { RoundCounters } from './round-counters.ts'
import type { Prefill } from './strategy.ts'
import { Uplink } from './uplink.ts'

export interface HatOptions extends ReopenOptions {
  /** A session, beginning with what a bridge still holds where it does. */
  open(signal: AbortSignal, wish?: SessionOptions): Promise<LinkSession>
  /** How states travel up. As int8 the answer may be another than the reference's. */
  readonly wire: Wire
  /** Whether verifications are all of one length, so that it tells nothing of the draft's; undefined: on encrypted links. */
  readonly padding: boolean | undefined
  readonly prefill: Prefill
  /** What the bridge may still hold of earlier answers; undefined: nothing is looked for or left behind. */
  readonly prefixes: PrefixMemory | undefined
  readonly dims: Dims
  readonly input: Part
  readonly head: SharedHead
  /** Takes what this device's steps took. */
  readonly speed: DeviceSpeed
  createDrafter(sampling: Sampling): Drafter | TreeDrafter
  /** η of HAT Eq. 5. */
  readonly threshold: number
  /** Most tokens drafted per round, beside the bridge's own limit. */
  readonly draftLimit: number
  /** Whether to draft on while a verification is away. */
  readonly draftAhead: boolean
}

export interface HatRequest {
  /** Who asks: nobody begins with what another client asked. */
  readonly client: string
  readonly prompt: readonly number[]
  readonly maxTokens: number
  readonly sampling: Sampling
  /** Tokens that end the answer; the one that does is part of it. */
  readonly eos: readonly number[]
}

/** Tokens that became certain at once: the first after prefill, then those of each verification. */
export interface HatRound {
  readonly tokens: readonly number[]
  readonly drafted: number
  readonly accepted: number
  /** Of the session up to here. */
  figures(): EndpointFigures
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
  const resume = prefixes?.find(request.client, request.prompt)
  const session = await openFirst(options, { resume, wire }, signal)
  if (resume && session.held === 0 && session.bridge === resume.bridge) prefixes?.forget(resume.handle)
  const stream = new DeviceStream(options.input, options.dims.hidden, request.prompt.length)
  const again = (avoid: string | undefined) =>
    reopen({ ...options, open: (until) => options.open(until, { wire, avoid }) }, signal)
  const verifyRowsAt = ({ bridge, draftLimit }: LinkSession) =>
    (padding ?? bridge.startsWith('wss:')) ? Math.min(options.draftLimit, draftLimit) + 1 : undefined
  const uplink = new Uplink(session, stream.shallow, again, verifyRowsAt)
  const leave = () => uplink.close()
  signal.addEventListener('abort', leave, { once: true })
  let drafter: Drafter | TreeDrafter | undefined
  let hat: HatSession | undefined
  try {
    drafter = options.createDrafter(request.sampling)
    hat = new HatSession(options, request, uplink, stream, drafter, session.held, signal)
    yield* hat.run()
  } finally {
    signal.removeEventListener('abort', leave)
    if (resume && session.moved) prefixes?.forget(resume.handle)
    const verified = hat?.verified ?? 0
    if (prefixes && !signal.aborted && verified >= minPrefixTokens) {
      const ids = stream.ids.slice(0, verified)
      void uplink.closeRetaining(verified).then((kept) => {
        if (kept) prefixes.remember(request.client, ids.slice(0, kept.length), kept)
      })
    } else {
      uplink.close()
    }
    drafter?.release()
    stream.release()
  }
}

/** The first session. A link that breaks just now is no worse than one that breaks later; no bridge at all is told at once. */
async function openFirst(options: HatOptions, wish: SessionOptions, signal: AbortSignal): Promise<LinkSession> {
  try {
    return await options.open(signal, wish)
  } catch (error) {
    if (signal.aborted || !isLinkFailure(error)) throw error
    return reopen({ ...options, open: (until) => options.open(until, wish) }, signal)
  }
}

class HatSession {
  /** Positions that both sides hold; undefined while anything is under way. */
  verified: number | undefined
  readonly #options: HatOptions
  readonly #request: HatRequest
  readonly #uplink: Uplink
  readonly #stream: DeviceStream
  readonly #drafter: Drafter | TreeDrafter
  readonly #drafting: Drafting
  readonly #signal: AbortSignal
  readonly #held: number
  readonly #counters = new RoundCounters()

  constructor(
    options: HatOptions,
    request: HatRequest,
    uplink: Uplink,
    stream: DeviceStream,
    drafter: Drafter | TreeDrafter,
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
    const { speed, clock, threshold, draftAhead: ahead, dims } = options
    const { contextLimit } = dims
    const checkCanceled = () => this.#checkCanceled()
    this.#drafting = new Drafting({
      drafter,
      stream,
      speed,
      clock,
      threshold,
      eos: request.eos,
      ahead: ahead && options.draftLimit > 0,
      contextLimit,
      checkCanceled,
    })
  }

  async *run(): AsyncGenerator<HatRound, void> {
    const { prompt, maxTokens, eos } = this.#request
    const { clock } = this.#options
    let pending = await this.#prefill()
    this.#counters.first()
    this.verified = prompt.length
    yield { tokens: [pending], drafted: 0, accepted: 0, figures: () => this.#figures() }
    while (this.#counters.tokens < maxTokens && !eos.includes(pending)) {
      this.verified = undefined
      const startedMs = clock.nowMs()
      const { failovers } = this.#uplink
      const position = prompt.length + this.#counters.tokens - 1
      const limit = this.#draftLimit(position)
      const draft = await this.#drafting.draft(pending, limit, this.#mostDrafted)
      const choices = await this.#verify(position, draft, limit)
      const { path, tokens } = acceptDraft(draft, (node) => choices[node + 1]!)
      this.#uplink.keepRows([0, ...path.map((node) => node + 1)])
      this.#drafting.settle(position, path, tokens.at(-1)!)
      const end = tokens.findIndex((token) => eos.includes(token))
      const added = end < 0 ? tokens : tokens.slice(0, end + 1)
      this.#counters.round(added.length, draft.tokens.length, path.length)
      // What a failover takes is nobody's draft.
      if (this.#uplink.failovers === failovers) this.#drafter.roundEnded?.(added.length, (clock.nowMs() - startedMs) / 1_000)
      pending = added.at(-1)!
      this.verified = position + 1 + path.length
      yield { tokens: added, drafted: draft.tokens.length, accepted: path.length, figures: () => this.#figures() }
    }
  }

  #figures(): EndpointFigures {
    const { bytesUp, bytesDown, wideRows, failovers, session: terms } = this.#uplink
    const { prefillTokensPerS = null, draftStepS } = this.#options.speed
    const { upBytesPerS = null, downBytesPerS = null } = terms.rates
    return {
      ...this.#counters.figures,
      wire: this.#options.wire,
      drafting: this.#drafter.report?.() ?? null,
      ahead: this.#drafting.ahead,
      reusedTokens: this.#held,
      bytesUp,
      bytesDown,
      wideRows,
      failovers,
      rates: {
        upBytesPerS,
        downBytesPerS,
        prefillTokensPerS,
        draftStepMs: draftStepS === undefined ? null : draftStepS * 1_000,
      },
    }
  }

  /** @returns the first token of the answer */
  async #prefill(): Promise<number> {
    const { prompt } = this.#request
    // What the bridge holds is computed here all the same: decoding needs it, and so would another bridge.
    const { frameTokens } = this.#uplink.session
    for (let from = 0; from < this.#held; from += frameTokens) {
      await this.#feedTimed(prompt.slice(from, Math.min(from + frameTokens, this.#held)))
      await this.#drafter.catchUp(this.#stream)
    }
    if (this.#options.prefill === 'chunked') await this.#sendChunks()
    else await this.#sendWhole(this.#options.prefill === 'whole-all')
    const [first] = await this.#choose(prompt.length - 1, 1)
    return first!
  }

  /** While the bridge computes one chunk the next is computed here; only the last position's deep state comes back. */
  async #sendChunks(): Promise<void> {
    const { prompt } = this.#request
    for (let from = this.#held, to: number; from < prompt.length; from = to) {
      const { chunkTokens, frameTokens } = this.#uplink.session
      to = from + nextChunk(prompt.length - from, chunkTokens, frameTokens)
      await this.#feedTimed(prompt.slice(from, to))
      await this.#uplink.send(from, to, to === prompt.length ? 1 : 0)
      await this.#drafter.catchUp(this.#stream)
    }
  }

  /** The baselines: nothing is sent before everything has been computed. @param all whether all deep states come back */
  async #sendWhole(all: boolean): Promise<void> {
    const { prompt } = this.#request
    const { frameTokens } = this.#uplink.session
    await this.#feedTimed(prompt.slice(this.#held))
    for (let from = this.#held; from < prompt.length; from += frameTokens) {
      const to = Math.min(from + frameTokens, prompt.length)
      await this.#uplink.send(from, to, all ? to - from : to === prompt.length ? 1 : 0)
    }
    await this.#drafter.catchUp(this.#stream)
  }

  /** Most tokens that may follow one another behind the one at this position. */
  #draftLimit(position: number): number {
    const remaining = this.#request.maxTokens - this.#counters.tokens
    return maxDraftTokens(this.#mostDrafted, remaining, position, this.#options.dims.contextLimit)
  }

  /** Tokens of a draft, however they follow one another. */
  get #mostDrafted(): number {
    return Math.min(this.#options.draftLimit, this.#uplink.session.draftLimit)
  }

  /** Sends the pending token's row and the draft's; drafts on while they are away. @returns the LLM's choice after each */
  async #verify(position: number, { tokens, parents }: DraftTree, limit: number): Promise<number[]> {
    const rows = 1 + tokens.length
    const branches = parents.some((parent, node) => parent !== node - 1)
    await this.#uplink.send(position, position + rows, rows, branches ? [-1, ...parents.map((parent) => parent + 1)] : [])
    let isOver = false
    const answered = this.#uplink.settle().finally(() => {
      isOver = true
    })
    // Whatever fails here first, the other's failure is nobody's surprise.
    answered.catch(() => {})
    await this.#drafting.draftAhead(this.#roundTrip(rows), limit, () => isOver)
    return this.#choose(position, rows, answered)
  }

  #roundTrip(rows: number): RoundTrip {
    const { rates, wire } = this.#uplink.session
    const { upBytesPerS = Number.POSITIVE_INFINITY, downBytesPerS = Number.POSITIVE_INFINITY, rttS, cloudS } = rates
    const bytesPerToken = rowBytes(wire, this.#options.dims.hidden)
    // What the bridge has a frame for is known as one time, waiting and computing.
    return { rows, bytesPerToken, upBytesPerS, downBytesPerS, rttS, waitS: 0, computeS: cloudS }
  }

  /** Waits for the deep rows under way. @returns the LLM's choice after each of the last `count`, the first at row `from` */
  async #choose(from: number, count: number, answered: Promise<States> = this.#uplink.settle()): Promise<number[]> {
    const all = await answered
    this.#checkCanceled()
    const deep = sliceStates(all, all.rows - count, all.rows)
    this.#stream.deep.append(deep)
    const { sampling } = this.#request
    const { rows } = this.#stream
    return this.#options.head.read(deep, (logits, at) => chooseToken(logits, sampling, rows.positionOf(from + at) + 1))
  }

  /** Of a prompt: how fast that goes is what the bridge sizes chunks by. */
  async #feedTimed(tokens: readonly number[]): Promise<void> {
    const { clock, speed } = this.#options
    const startedMs = clock.nowMs()
    this.#checkCanceled()
    await this.#stream.feed(tokens)
    speed.recordPrefill(tokens.length, (clock.nowMs() - startedMs) / 1_000)
  }

  #checkCanceled(): void {
    if (this.#signal.aborted) throw new BrimError('CANCELED', 'the answer was stopped')
  }
}
