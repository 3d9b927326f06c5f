import { type HandlersOf, handleKind, type Machine, PendingActions } from '../machine.ts'
import { Reader, unreadOf } from '../serving/reader.ts'
import type { TimedSteps } from './device-speed.ts'
import { plannedStepsAhead, roundCostsOf, roundTripOf } from './draft-ahead-steps.ts'
import { DraftBranches, type PreparedDraft } from './draft-branches.ts'
import { type DraftChain, emptyChain, extended, type Guess, isComplete } from './draft-chain.ts'
import { maxDraftTokens } from './draft-gain.ts'
import { type DraftHistory, DraftRounds, type DraftRule, thresholdRule } from './draft-rounds.ts'
import type { AcceptedPath, HatAction, HatComputation, HatConditions, HatInput, HatRules, UplinkEvent } from './hat-steps.ts'
import { PromptPrefill } from './prompt-prefill.ts'
import { RoundCounters } from './round-counters.ts'
import { RoundTimes } from './round-times.ts'
import { UplinkFlow } from './uplink-flow.ts'

const chainOnly: readonly number[] = []
const computed: ReadonlySet<HatInput['kind']> = new Set(['fed', 'caughtUp', 'guessed', 'guessedTree', 'accepted'])

/**
 * One private answer by the split model (HAT): prefill in chunks, then rounds of drafting on the device and verifying at the
 * bridge. It decides what the device computes next, which rows are sent when, how long a draft gets, what is drafted during a
 * verification, and what of it is kept. Token ids and states stay with the shell that carries its actions out.
 */
export class HatMachine implements Machine<HatInput, HatAction> {
  readonly wakeMs = undefined
  readonly counters = new RoundCounters()
  readonly uplink: UplinkFlow
  /** Of drafting ahead: tokens drafted, rounds that began with a prepared draft, and the tokens of those drafts. */
  readonly ahead = { drafted: 0, rounds: 0, tokens: 0 }
  /** Positions that both sides hold; undefined while frames are in flight. */
  verified: number | undefined
  readonly #rules: HatRules
  readonly #prefill: PromptPrefill
  readonly #drafts: DraftRounds
  readonly #actions = new PendingActions<HatAction>()
  #nowMs = 0
  #conditions!: HatConditions
  #reader: Reader | undefined
  #phase: 'prompt' | 'pending' | 'draft' | 'verification' | 'reading' = 'prompt'
  #isComputing = false
  /** When the computation that is measured began. */
  #beganMs = 0

  readonly #times = new RoundTimes()
  #failovers = 0
  /** Row of the pending token. */
  #position = 0
  /** Maximum path of this round's draft. */
  #limit = 0
  #draft: DraftChain = emptyChain
  /** Tokens of the draft that were prepared. */
  #preparedTokens = 0
  /** Guesses of this round that did not become part of the draft. */
  #dropped = 0
  #rule: DraftRule = thresholdRule(0, 0)
  /** Of a draft that is a tree. */
  #treeParents: readonly number[] = []
  #hasPlannedAhead = false
  #branches: DraftBranches | undefined
  /** That the last step has added. */
  #aheadRows = 0
  #prepared: PreparedDraft | undefined
  /** Whether the text has ended. */
  #isOver = false
  readonly #handlers: HandlersOf<HatInput> = {
    opened: ({ held, computed }) => this.#open(held, computed),
    fed: () => this.#onFed(),
    caughtUp: () => this.#onCaughtUp(),
    guessed: ({ guesses }) => (this.#phase === 'draft' ? this.#onGuessed(guesses[0] ?? []) : this.#onGuessedAhead(guesses)),
    guessedTree: ({ parents }) => this.#onGuessedTree(parents),
    accepted: ({ acceptance }) => this.#onAccepted(acceptance),
    sent: () => this.#onSent(),
    replied: (event) => this.#onUplink(event),
    gap: (event) => this.#onUplink(event),
    failed: (event) => this.#onUplink(event),
    reopened: (event) => this.#onUplink(event),
    taken: () => this.#onTaken(),
  }

  constructor(rules: HatRules) {
    this.#rules = rules
    this.#drafts = new DraftRounds(rules.history)
    this.uplink = new UplinkFlow(rules.bytesPerToken, (action) => this.#actions.push(action))
    this.#prefill = new PromptPrefill(rules, this.uplink)
  }

  /** With which the device's next answer begins. */
  get history(): DraftHistory {
    return this.#drafts.history
  }

  handle(input: HatInput, nowMs: number): readonly HatAction[] {
    this.#nowMs = nowMs
    this.#conditions = input.conditions
    if (computed.has(input.kind)) this.#isComputing = false
    handleKind(this.#handlers, input)
    return this.#actions.take()
  }

  #open(held: number, computed = 0): void {
    const { tokensPerS, maxTokens } = this.#rules
    if (tokensPerS !== undefined) this.#reader = new Reader(tokensPerS, maxTokens, this.#nowMs)
    this.#prefill.open(held, computed)
    this.#feedPrompt()
  }

  #feedPrompt(): void {
    this.#beganMs = this.#nowMs
    this.#compute(this.#prefill.compute(this.#conditions))
  }

  #onFed(): void {
    switch (this.#phase) {
      case 'prompt':
        this.#measured('prefill', this.#prefill.computedRows)
        this.#sendPrompt()
        break
      case 'pending':
        this.#times.fed(this.#nowMs)
        this.#beginDraft()
        break
      case 'draft':
        this.#draftOn()
        break
      default:
        this.#onFedAhead()
    }
  }

  #sendPrompt(): void {
    const catchUp = this.#prefill.send(this.#conditions)
    if (catchUp) this.#compute(catchUp)
  }

  /** The device computes a chunk while the bridge computes the one before. */
  #onCaughtUp(): void {
    if (!this.#prefill.isComputed) return void this.#feedPrompt()
    this.#position = this.#rules.promptTokens - 1
    this.#phase = 'verification'
    this.uplink.settle(this.#conditions)
    this.#goOn()
  }

  #onUplink(event: UplinkEvent): void {
    this.uplink.on(event, this.#conditions)
    this.#goOn()
  }

  /** What was sent, or has come back, may be what the answer waits for. */
  #goOn(): void {
    if (this.#isComputing) return
    if (this.#phase === 'prompt') this.#sendPrompt()
    else if (this.#phase === 'verification' && this.uplink.isSettled) this.#accept()
  }

  /** Maximum tokens of a draft, all paths together. */
  get #maxDrafted(): number {
    const { draftLimit, paddedRows = Number.POSITIVE_INFINITY } = this.#conditions
    return Math.min(this.#rules.draftLimit, draftLimit, paddedRows - 1)
  }

  #onTaken(): void {
    const { promptTokens, maxTokens, contextLimit, draftsTrees } = this.#rules
    const { tokens } = this.counters
    if (this.#isOver || tokens >= maxTokens) {
      this.#actions.push({ kind: 'end' })
      return
    }
    this.verified = undefined
    this.#times.begin(this.#nowMs)
    this.#dropped = 0
    this.#failovers = this.uplink.failovers
    this.#position = promptTokens + tokens - 1
    this.#limit = maxDraftTokens(this.#maxDrafted, maxTokens - tokens, this.#position, contextLimit)
    this.#draft = emptyChain
    this.#treeParents = chainOnly
    this.#hasPlannedAhead = false
    this.#phase = 'pending'
    if (draftsTrees && this.#limit > 0) this.#compute({ kind: 'guessTree', maxDepth: this.#limit })
    else if (!this.#takePrepared()) this.#compute({ kind: 'feed', tokens: { of: 'pending' }, rows: 1, context: this.#position })
  }

  #takePrepared(): boolean {
    const { chain } = this.#prepared ?? {}
    this.#prepared = undefined
    this.#preparedTokens = 0
    if (!chain) return false
    const { length } = chain.guesses
    const kept = Math.min(length, this.#limit)
    this.#draft = kept === length ? chain : { guesses: chain.guesses.slice(0, kept), ended: true }
    this.#preparedTokens = kept
    this.ahead.rounds += 1
    this.ahead.tokens += kept
    if (kept < length) this.#actions.push({ kind: 'gather', keep: this.#position + 1 + kept, rows: [] })
    this.#beginDraft()
    return true
  }

  #onGuessedTree(parents: readonly number[]): void {
    const { contextLimit } = this.#rules
    // Parents come before their children, so a beginning of a tree is a tree.
    this.#treeParents = parents.slice(0, Math.min(this.#maxDrafted, contextLimit - 1 - this.#position))
    const position = this.#position
    this.#compute({
      kind: 'feed',
      tokens: { of: 'tree' },
      rows: 1 + this.#treeParents.length,
      context: position,
      parents: [position - 1, ...this.#treeParents.map((parent) => position + 1 + parent)],
    })
  }

  #beginDraft(): void {
    if (this.#rules.draftsTrees) return void this.#verify(this.#treeParents)
    this.#phase = 'draft'
    this.#beganMs = this.#nowMs
    this.#rule = this.#draftRule('round')
    this.#draftOn()
  }

  #draftOn(): void {
    const { length } = this.#draft.guesses
    if (isComplete(this.#draft, this.#rule)) {
      const steps = length - this.#preparedTokens + this.#dropped
      this.#times.drafted(this.#beganMs, this.#nowMs)
      if (steps > 0) this.#measured('draft', steps)
      this.#verify(this.#draft.guesses.map((_, at) => at - 1))
    } else {
      const last = this.#position + length
      this.#compute({ kind: 'guess', after: [last], context: last })
    }
  }

  #onGuessed(guesses: readonly Guess[]): void {
    const before = this.#draft.guesses.length
    this.#draft = extended(this.#draft, guesses, this.#rule)
    const rows = this.#draft.guesses.length - before
    // It took the time of a guess.
    if (rows === 0 && guesses.length > 0) this.#dropped = 1
    const context = this.#position + 1 + before
    if (rows > 0) this.#compute({ kind: 'feed', tokens: { of: 'guesses', taken: [rows] }, rows, context })
    else this.#draftOn()
  }

  /** Sends the rows of the pending token and of the draft. */
  #verify(parents: readonly number[]): void {
    const reader = this.#reader
    if (reader) this.#actions.push({ kind: 'report', tokensPerS: reader.tokensPerS, unread: unreadOf(reader, this.#nowMs) })
    const from = this.#position
    const returned = 1 + parents.length
    const branches = parents.some((parent, node) => parent !== node - 1)
    const shifted = branches ? [-1, ...parents.map((parent) => parent + 1)] : chainOnly
    this.#phase = 'verification'
    this.#times.sent(this.#nowMs)
    this.uplink.send({ from, to: from + returned, returned, parents: shifted }, this.#conditions)
    this.uplink.settle(this.#conditions)
  }

  /**
   * Plans to draft ahead during the verification, for the steps that fit into the expected round trip (HAT Eq. 6) and no longer
   * than it lasts.
   */
  #onSent(): void {
    const { draftAhead, draftsTrees, bytesPerToken, contextLimit } = this.#rules
    if (this.#phase !== 'verification' || this.#hasPlannedAhead || this.#isComputing) return
    this.#hasPlannedAhead = true
    if (!draftAhead || draftsTrees || !this.#conditions.mayDraftAhead || this.#limit === 0) return
    const trip = roundTripOf(1 + this.#draft.guesses.length, bytesPerToken, this.#conditions)
    const { draftStepS } = this.#conditions
    const maxSteps = plannedStepsAhead(trip, this.#conditions)
    if (maxSteps === 0) {
      // The estimate would never be measured again: it decays to the time of an ordinary step.
      if (draftStepS !== undefined) this.#record({ of: 'ahead', count: 1, seconds: draftStepS })
      return
    }
    const branches = new DraftBranches(this.#draft, this.#position, maxSteps)
    if (branches.rows > contextLimit) return
    this.#branches = branches
    this.#rule = this.#draftRule('ahead')
    const { alternatives, parents, context } = branches
    if (alternatives.length === 0) this.#stepAhead()
    else
      this.#compute({ kind: 'feed', tokens: { of: 'alternatives', alternatives }, rows: alternatives.length, context, parents })
  }

  #stepAhead(): void {
    if (this.uplink.isSettled) return void this.#accept()
    const { context } = this.#branches!
    const after = this.#branches!.ask(this.#limit, this.#rules.contextLimit)
    this.#beganMs = this.#nowMs
    if (after.length > 0) this.#compute({ kind: 'guess', after, context })
  }

  #onGuessedAhead(guesses: readonly (readonly Guess[])[]): void {
    // Rows that the reply has overtaken would delay the next round.
    if (this.uplink.isSettled) return void this.#accept()
    const { taken, parents } = this.#branches!.take(guesses, this.#rule)
    const { context } = this.#branches!
    this.#aheadRows = parents.length
    if (parents.length > 0)
      this.#compute({ kind: 'feed', tokens: { of: 'guesses', taken }, rows: parents.length, context, parents })
  }

  #onFedAhead(): void {
    // Before the first step, the alternatives were fed.
    if (this.#branches!.steps > 0) {
      this.ahead.drafted += this.#aheadRows
      this.#measured('ahead', 1)
    }
    this.#stepAhead()
  }

  /** The head reads the deep rows of the pending token and of the draft. */
  #accept(): void {
    const rows = 1 + Math.max(this.#draft.guesses.length, this.#treeParents.length)
    this.#times.replied(this.#nowMs)
    this.#compute({ kind: 'accept', position: this.#position, rows })
  }

  #onAccepted({ path, tokens, endsText, continuedBy }: AcceptedPath): void {
    const { counters } = this
    const drafted = Math.max(this.#draft.guesses.length, this.#treeParents.length)
    this.#isOver = endsText
    this.#phase = 'reading'
    this.verified = this.#position + 1 + path.length
    this.#reader?.deliver(tokens, this.#nowMs)
    if (counters.tokens === 0) counters.first()
    else {
      this.#keep(path, continuedBy)
      counters.round(tokens, drafted, path.length)
      const seconds = this.#times.secondsAt(this.#nowMs)
      // The time of a failover is not the drafter's.
      if (this.uplink.failovers === this.#failovers) this.#actions.push({ kind: 'roundEnded', tokens, seconds })
    }
    this.#actions.push({ kind: 'deliver', tokens, drafted, accepted: path.length })
  }

  /** Keeps the rows up to the pending token's, the accepted ones, and a prepared draft that follows them. */
  #keep(path: readonly number[], continuedBy: number | undefined): void {
    this.uplink.keepRows([0, ...path.map((node) => node + 1)])
    this.#learn(path.length)
    this.#prepared = continuedBy === undefined ? undefined : this.#branches?.preparedAfter(continuedBy)
    this.#branches = undefined
    const first = this.#position + 1
    const rows = [...path.map((node) => first + node), ...(this.#prepared?.rows ?? [])]
    // Rows that are in place already need not be moved.
    const moved = rows.findIndex((row, at) => row !== first + at)
    const inPlace = moved < 0 ? rows.length : moved
    this.#actions.push({ kind: 'gather', keep: first + inPlace, rows: rows.slice(inPlace) })
  }

  #learn(accepted: number): void {
    const { guesses: draft } = this.#draft
    const { feedS } = this.#times
    const overheadS = this.#times.overheadS(this.#nowMs)
    this.#drafts.record({ tokens: accepted + 1, draft, prepared: this.#preparedTokens, accepted, overheadS, feedS })
  }

  #draftRule(when: 'round' | 'ahead'): DraftRule {
    const { threshold, bytesPerToken } = this.#rules
    if (threshold !== undefined) return thresholdRule(threshold, this.#limit)
    return this.#drafts.rule(roundCostsOf(bytesPerToken, this.#drafts.overheadS, this.#conditions), this.#limit, when)
  }

  #compute(computation: HatComputation): void {
    this.#isComputing = true
    this.#actions.push(computation)
  }

  /** Steps that began at `#beganMs` are over. */
  #measured(of: TimedSteps['of'], count: number): void {
    this.#record({ of, count, seconds: (this.#nowMs - this.#beganMs) / 1_000 })
  }

  #record(steps: TimedSteps): void {
    this.#actions.push({ kind: 'measured', steps })
  }
}
