import type { EndpointFigures } from '../../core/answer/endpoint/figures.ts'
import { ArrivalQueue } from '../../core/kit/base/arrival-queue.ts'
import { constrainedDrafter } from '../../core/model/draft/constrained-drafter.ts'
import { DeviceStream } from '../../core/model/draft/device-stream.ts'
import type { DraftedToken, Drafter, TreeDrafter } from '../../core/model/draft/drafter.ts'
import { guessOf } from '../../core/model/draft/guess-of.ts'
import { newTokensTo, RowConstraint } from '../../core/model/draft/row-constraint.ts'
import { choose, type TokenChoice } from '../../core/model/engine/logprobs.ts'
import type { TokenMask } from '../../core/model/grammar/grammar.ts'
import { acceptDraft } from '../../core/policy/hat/accept-draft.ts'
import type { DraftTree } from '../../core/policy/hat/draft-tree.ts'
import { root } from '../../core/policy/hat/draft-tree.ts'
import { conditionsOf } from '../../core/policy/hat/hat-conditions.ts'
import { HatMachine } from '../../core/policy/hat/hat-machine.ts'
import type { FedTokens, HatAction, HatConditions, HatEvent, HatInput, HatRules } from '../../core/policy/hat/hat-steps.ts'
import { type HandlersOf, handleKind, type Machine, type OfKind } from '../../core/policy/machine.ts'
import { rowBytes } from '../../core/wire/protocol/frame.ts'
import { sliceStates } from '../../core/wire/protocol/states.ts'
import type { LinkSession } from '../link/link-session.ts'
import type { HatOptions, HatRequest, HatRound } from './hat-options.ts'
import { type LeftPrefix, minPrefixTokens, type PrefixMemory } from './prefix-memory.ts'
import { open, reopen } from './reopen.ts'
import { Uplink } from './uplink.ts'

/** Carries out what the machine of one answer decides: it has the token ids and the states. */
export class HatExecutor {
  readonly #options: HatOptions
  readonly #request: HatRequest
  readonly #machine: HatMachine
  /** The same, recorded where that is wanted. */
  readonly #decider: Machine<HatInput, HatAction>
  readonly #conditions: HatConditions
  readonly #events = new ArrivalQueue<HatEvent>()
  readonly #drafter: Drafter | TreeDrafter
  /** Undefined: the answer is free. */
  readonly #constraint: RowConstraint | undefined
  readonly #stream: DeviceStream
  readonly #uplink: Uplink
  /** It holds some positions of the prompt. */
  readonly #first: LinkSession
  /** Resolves when the device computes nothing more. */
  #computed: Promise<void> = Promise.resolve()
  #pending = 0
  /** The LLM's choices that became certain last. */
  #choices: readonly TokenChoice[] = []
  /** After each row that was asked for. */
  #guesses: readonly (readonly DraftedToken[])[] = []
  #tree: DraftTree = { tokens: [], parents: [] }
  /** By row: other likely tokens in place of a drafted one. */
  readonly #alternatives: (readonly number[] | undefined)[] = []
  #isDelivered = false

  readonly #handlers: HandlersOf<Exclude<HatAction, { kind: 'deliver' }>> = {
    feed: (action) => this.#compute(this.#feed(action)),
    catchUp: () => this.#compute(this.#catchUp()),
    guess: ({ after }) => this.#compute(this.#guess(after)),
    guessTree: ({ maxDepth }) => this.#compute(this.#guessTree(maxDepth)),
    accept: (action) => this.#compute(this.#accept(action)),
    exchange: (action) => this.#exchange(action),
    reopen: (action) => this.#uplink.reopen(action),
    lost: (action) => this.#events.fail(this.#uplink.lostError(action)),
    measured: ({ steps }) => this.#options.speed.record(steps),
    gather: ({ keep, rows }) => this.#gather(keep, rows),
    report: ({ tokensPerS, unread }) => this.#uplink.report(tokensPerS, unread),
    roundEnded: ({ tokens, seconds }) => this.#drafter.roundEnded?.(tokens, seconds),
    end: () => this.#events.done(),
  }

  /** @param begun the first rows of the prompt, which the device has from an earlier answer */
  constructor(options: HatOptions, request: HatRequest, session: LinkSession, begun?: DeviceStream) {
    const { dims, input, wire, coders, speed, padding, intervalMs, clock } = options
    const { prompt, maxTokens, tokensPerS, answer } = request
    this.#options = options
    this.#request = request
    this.#first = session
    const { constraint, answered = [] } = request
    this.#constraint = constraint && new RowConstraint(constraint, prompt.length, answered)
    this.#drafter = drafterOf(options.createDrafter(request.sampling, this.#constraint), this.#constraint)
    this.#stream = begun ?? new DeviceStream(input, dims.hidden, prompt.length)
    const openAnother = (isLost: boolean, avoid: string | undefined, signal: AbortSignal) => {
      const another = { ...options, open: (until: AbortSignal) => options.open(until, { wire, coders, avoid, answer }) }
      return isLost ? reopen(another, signal, request.onWaiting) : open(another, signal)
    }
    // The rows kept of a tree are named by the next frame, which must be a verification.
    const pace = intervalMs === undefined || 'tree' in this.#drafter ? undefined : { intervalMs, clock }
    this.#uplink = new Uplink(session, this.#stream.shallow, openAnother, this.#events, pace)
    const { prefill, threshold, draftLimit, draftAhead } = options
    const rules: HatRules = {
      ...{ prefill, threshold, draftLimit },
      history: speed.drafts,
      growingChunks: true,
      promptTokens: prompt.length,
      maxTokens,
      contextLimit: dims.contextLimit,
      draftsTrees: 'tree' in this.#drafter,
      draftAhead: draftAhead && draftLimit > 0,
      bytesPerToken: rowBytes(session.wire, dims.hidden, coders?.up),
      tokensPerS,
    }
    this.#conditions = conditionsOf({
      session: () => this.#uplink.session,
      speed,
      rules,
      isPadded: () => pace !== undefined || (padding ?? this.#uplink.session.bridge.startsWith('wss:')),
      padsPrompts: pace !== undefined,
      mayDraftAhead: () => !('tree' in this.#drafter) && this.#drafter.mayDraftAhead !== false,
    })
    this.#machine = new HatMachine(rules)
    this.#decider = options.recording?.of('hat', rules, this.#machine) ?? this.#machine
    this.#events.push({ kind: 'opened', held: session.held, computed: begun?.ids.length })
  }

  /** @returns undefined at the end of the answer. @throws what ends it before that; the signal's reason */
  async next(signal: AbortSignal): Promise<HatRound | undefined> {
    if (this.#isDelivered) this.#events.push({ kind: 'taken' })
    this.#isDelivered = false
    for (let event = await this.#events.next(); event; event = await this.#events.next()) {
      signal.throwIfAborted()
      const input = { ...event, conditions: this.#conditions }
      for (const action of this.#decider.handle(input, this.#options.clock.nowMs())) {
        if (action.kind === 'deliver') return this.#deliver(action)
        handleKind(this.#handlers, action)
      }
    }
    return undefined
  }

  /** Ends the session: what is under way fails. */
  interrupt(): void {
    this.#uplink.close()
  }

  /** Frees the KV of both sides, or leaves it to the next answer. @param prefixes remembers what both have */
  async close(prefixes: PrefixMemory | undefined): Promise<void> {
    const { verified = 0, uplink } = this.#machine
    let left: LeftPrefix | undefined
    if (prefixes && verified >= minPrefixTokens) {
      const ids = this.#stream.ids.slice(0, verified)
      // The bridge may not know yet which rows of a tree were kept.
      left = prefixes.remember(this.#request.client, ids, this.#uplink.closeAndCache(Math.min(verified, uplink.chain)))
    } else {
      this.#uplink.close()
    }
    await this.#computed
    if (this.#options.threshold === undefined) this.#options.speed.drafts = this.#machine.history
    this.#drafter.release()
    if (left) left.keep(this.#stream)
    else this.#stream.release()
  }

  #compute(work: Promise<HatEvent>): void {
    this.#computed = work.then(
      (event) => this.#events.push(event),
      (error: unknown) => this.#events.fail(error),
    )
  }

  #exchange(action: OfKind<HatAction, 'exchange'>): void {
    this.#uplink.exchange(action)
    this.#events.push({ kind: 'sent' })
  }

  async #catchUp(): Promise<HatEvent> {
    await this.#drafter.catchUp(this.#stream)
    return { kind: 'caughtUp' }
  }

  async #guessTree(maxDepth: number): Promise<HatEvent> {
    if (!('tree' in this.#drafter)) throw new Error('the drafter makes no trees')
    this.#tree = await this.#drafter.tree(this.#stream, maxDepth)
    return { kind: 'guessedTree', parents: this.#tree.parents }
  }

  async #guess(after: readonly number[]): Promise<HatEvent> {
    if ('tree' in this.#drafter) throw new Error('the drafter makes trees')
    this.#guesses = await this.#drafter.next(this.#stream, after)
    const { eos } = this.#request
    return { kind: 'guessed', guesses: this.#guesses.map((guesses) => guesses.map((guess) => guessOf(guess, eos))) }
  }

  async #feed({ tokens, rows, parents }: OfKind<HatAction, 'feed'>): Promise<HatEvent> {
    const { length } = this.#stream.ids
    const { ids, alternatives } = this.#idsOf(tokens, rows)
    await this.#stream.feed(ids, parents)
    alternatives?.forEach((others, at) => {
      this.#alternatives[length + at] = others
    })
    return { kind: 'fed' }
  }

  #idsOf(tokens: FedTokens, rows: number): { ids: readonly number[]; alternatives?: readonly (readonly number[])[] } {
    switch (tokens.of) {
      case 'prompt':
        return { ids: this.#request.prompt.slice(tokens.from, tokens.from + rows) }
      case 'pending':
        return { ids: [this.#pending] }
      case 'tree':
        return { ids: [this.#pending, ...this.#tree.tokens].slice(0, rows) }
      case 'alternatives':
        return { ids: tokens.alternatives.map(({ row, rank }) => this.#alternatives[row]![rank]!) }
      case 'guesses': {
        const taken = tokens.taken.flatMap((count, at) => this.#guesses[at]!.slice(0, count))
        return { ids: taken.map(({ token }) => token), alternatives: taken.map(({ alternatives }) => alternatives) }
      }
      default:
        return tokens satisfies never
    }
  }

  #gather(keep: number, rows: readonly number[]): void {
    const alternatives = rows.map((row) => this.#alternatives[row])
    this.#alternatives.length = keep
    this.#alternatives.push(...alternatives)
    this.#stream.gather(keep, rows)
    this.#drafter.gather(keep, rows)
  }

  /** Chooses after each row, and accepts the draft, whose rows follow the first one. */
  async #accept({ position, rows }: OfKind<HatAction, 'accept'>): Promise<HatEvent> {
    const all = this.#uplink.takeDeep()
    const deep = sliceStates(all, all.rows - rows, all.rows)
    this.#stream.deep.append(deep)
    const masks = await this.#constraint?.after(
      this.#stream,
      Array.from({ length: rows }, (_, at) => position + at),
    )
    const choices = await this.#options.head.read(deep, (logits, at) => this.#chooseAfter(position + at, logits, masks?.[at]))
    const { ids, rows: tree } = this.#stream
    const first = position + 1
    const end = position + rows
    const draft = {
      tokens: ids.slice(first, end),
      parents: Array.from({ length: rows - 1 }, (_, node) => tree.parentOf(first + node) - first),
    }
    const { path, tokens } = acceptDraft(draft, (node) => choices[node + 1]!.token)
    const ends = tokens.findIndex((token) => this.#request.eos.includes(token))
    const added = ends < 0 ? tokens : tokens.slice(0, ends + 1)
    const next = tokens.at(-1)!
    const last = first + (path.at(-1) ?? root)
    let continuedBy: number | undefined
    for (let row = end; row < ids.length && continuedBy === undefined; row++)
      if (ids[row] === next && tree.parentOf(row) === last) continuedBy = row
    this.#pending = next
    this.#choices = [root, ...path].slice(0, added.length).map((node) => choices[node + 1]!)
    return { kind: 'accepted', acceptance: { path, tokens: added.length, endsText: ends >= 0, continuedBy } }
  }

  /** A row's path holds the prompt and then the answer, as far as the drafts on it are right. */
  #chooseAfter(row: number, logits: Float32Array, mask: TokenMask | undefined): TokenChoice {
    const { prompt, answered = [] } = this.#request
    const newTokens = newTokensTo(this.#stream, row, prompt.length)
    return choose(logits, this.#request, this.#stream.rows.positionOf(row) + 1, [...answered, ...newTokens], mask)
  }

  #deliver({ drafted, accepted }: OfKind<HatAction, 'deliver'>): HatRound {
    this.#isDelivered = true
    const logprobs = this.#choices.flatMap((choice) => choice.logprobs ?? [])
    const tokens = this.#choices.map(({ token }) => token)
    return { tokens, ...(logprobs.length > 0 && { logprobs }), drafted, accepted, figures: () => this.#figures() }
  }

  #figures(): EndpointFigures {
    const { bytesUp, bytesDown, wideRows, session } = this.#uplink
    const { counters, ahead, uplink } = this.#machine
    const { computing, speed, draftAhead, draftLimit } = this.#options
    const { prefillTokensPerS = null, draftStepS } = speed
    const { upBytesPerS = null, downBytesPerS = null } = session.rates
    return {
      ...counters.figures,
      wire: session.wire,
      computing: computing?.() ?? null,
      drafting: this.#drafter.report?.() ?? null,
      ahead: draftAhead && draftLimit > 0 && !('tree' in this.#drafter) ? { ...ahead } : null,
      reusedTokens: this.#first.held,
      bytesUp,
      bytesDown,
      wideRows,
      failovers: uplink.failovers,
      rates: {
        upBytesPerS,
        downBytesPerS,
        prefillTokensPerS,
        draftStepMs: draftStepS === undefined ? null : draftStepS * 1_000,
      },
    }
  }
}

const drafterOf = (drafter: Drafter | TreeDrafter, constraint: RowConstraint | undefined): Drafter | TreeDrafter =>
  constraint && !('tree' in drafter) ? constrainedDrafter(drafter, constraint) : drafter
