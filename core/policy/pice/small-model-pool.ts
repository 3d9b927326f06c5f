import { type Machine, noActions, type OfKind } from '../machine.ts'
import { type OpenModelState, planOpening } from './open-models.ts'

/** A version of a small model. */
export interface PoolModel {
  /** Of any version. */
  readonly name: string
  readonly version: string
  /** Memory of its weights, once it is open. */
  readonly bytes: number
}

export interface SmallModelPoolSettings {
  /** For all open small models together. */
  readonly limitBytes: number
  /** That must stay free when a model is opened beside another. */
  readonly reserveBytes: number
}

/** Requests are numbered by those who send them. */
export type SmallModelPoolEvent =
  /** Each name once. */
  | { readonly kind: 'models'; readonly models: readonly PoolModel[] }
  | { readonly kind: 'borrow'; readonly request: number; readonly name: string }
  /** The request ends without a model. */
  | { readonly kind: 'give up'; readonly request: number }
  | { readonly kind: 'return'; readonly version: string }
  /** Closes the model if it is open and not borrowed. */
  | { readonly kind: 'close idle'; readonly request: number; readonly name: string }
  | { readonly kind: 'opened' | 'broken' | 'closed'; readonly version: string }
  /** Closes all models, also borrowed ones. */
  | { readonly kind: 'end' }

/** An event with the memory that is free then. */
export type SmallModelPoolInput = SmallModelPoolEvent & { readonly freeBytes: number }

export type SmallModelPoolAction =
  /** They lead to the input `opened` or `broken`, and to `closed`. */
  | { readonly kind: 'open'; readonly version: string }
  | { readonly kind: 'close'; readonly version: string }
  /** @param loadMs time that opening it took; 0 where it was open */
  | { readonly kind: 'lend'; readonly request: number; readonly version: string; readonly loadMs: number }
  /** `ended`: the pool is closed. */
  | { readonly kind: 'refuse'; readonly request: number; readonly why: 'unknown' | 'too large' | 'broken' | 'ended' }
  | { readonly kind: 'idle closed'; readonly request: number }
  | { readonly kind: 'ended' }

interface PoolEntry extends PoolModel {
  borrowers: number
  usedMs: number
}

interface PoolRequest {
  readonly kind: 'borrow' | 'close idle'
  readonly request: number
  readonly name: string
}

/** A model that is opened, once others are closed. */
interface Opening {
  readonly model: PoolModel
  /** Undefined: others are being closed. */
  startedMs: number | undefined
}

/**
 * The small models of a device, of which as many are open as memory allows, at least one. Requests are served in their order, so that
 * one for a closed model is not delayed for ever by those for the open one; one model is opened or closed at a time. A model that is not
 * among the pool's any more is closed when it is returned. Mutable.
 */
export class SmallModelPool implements Machine<SmallModelPoolInput, SmallModelPoolAction> {
  readonly wakeMs = undefined
  readonly #settings: SmallModelPoolSettings
  readonly #entries = new Map<string, PoolEntry>()
  readonly #closing = new Set<string>()
  #models: readonly PoolModel[] = []
  #requests: PoolRequest[] = []
  #opening: Opening | undefined
  #isEnded = false

  constructor(settings: SmallModelPoolSettings) {
    this.#settings = settings
  }

  /** Name of the model that is open and was used last. */
  get current(): string | undefined {
    let last: PoolEntry | undefined
    for (const entry of this.#entries.values()) if (!last || entry.usedMs >= last.usedMs) last = entry
    return last?.name
  }

  /** Versions of open models. */
  get open(): readonly string[] {
    return [...this.#entries.keys()]
  }

  isOpen(name: string): boolean {
    for (const entry of this.#entries.values()) if (entry.name === name) return true
    return false
  }

  /** Weights that are open or about to be. */
  get openBytes(): number {
    let bytes = this.#opening?.model.bytes ?? 0
    for (const entry of this.#entries.values()) bytes += entry.bytes
    return bytes
  }

  handle(input: SmallModelPoolInput, nowMs: number): readonly SmallModelPoolAction[] {
    const actions: SmallModelPoolAction[] = []
    this.#take(input, nowMs, actions)
    while (this.#advance(input.freeBytes, nowMs, actions));
    return actions.length === 0 ? noActions : actions
  }

  #take(input: SmallModelPoolInput, nowMs: number, actions: SmallModelPoolAction[]): void {
    switch (input.kind) {
      case 'models':
        this.#models = input.models
        this.#cancelOpening()
        return
      case 'borrow':
      case 'close idle':
        this.#requests.push({ kind: input.kind, request: input.request, name: input.name })
        return
      case 'give up':
        // Nothing is opened for it once the others are closed.
        if (this.#requests[0]?.request === input.request) this.#cancelOpening()
        this.#requests = this.#requests.filter(({ request }) => request !== input.request)
        return
      case 'return': {
        const entry = this.#entries.get(input.version)
        // At the end borrowed models are closed, too.
        if (!entry) return
        entry.borrowers -= 1
        entry.usedMs = nowMs
        return
      }
      case 'opened': {
        const { model, startedMs } = this.#opening!
        this.#opening = undefined
        this.#entries.set(model.version, { ...model, borrowers: 0, usedMs: nowMs })
        const [head] = this.#requests
        if (!this.#isEnded && head?.kind === 'borrow' && head.name === model.name)
          this.#lend(head, model.version, nowMs - startedMs!, nowMs, actions)
        return
      }
      case 'broken': {
        const { name } = this.#opening!.model
        this.#opening = undefined
        const [head] = this.#requests
        if (head?.kind === 'borrow' && head.name === name) this.#refuse('broken', actions)
        return
      }
      case 'closed':
        this.#closing.delete(input.version)
        return
      case 'end':
        this.#isEnded = true
        this.#cancelOpening()
        return
      default:
        input satisfies never
    }
  }

  /** Of a model for which others are being closed: what comes next is decided again. */
  #cancelOpening(): void {
    if (this.#opening?.startedMs === undefined) this.#opening = undefined
  }

  /** @returns whether there may be more to do */
  #advance(freeBytes: number, nowMs: number, actions: SmallModelPoolAction[]): boolean {
    if (this.#opening?.startedMs !== undefined || this.#closing.size > 0) return false
    if (this.#opening) {
      this.#opening.startedMs = nowMs
      actions.push({ kind: 'open', version: this.#opening.model.version })
      return false
    }
    if (this.#isEnded) return this.#end(actions)
    const unknown = this.#idle((entry) => !this.#models.some(({ version }) => version === entry.version))
    if (unknown.length > 0) {
      this.#close(unknown, actions)
      return false
    }
    const [head] = this.#requests
    if (!head) return false
    if (head.kind === 'borrow') return this.#serve(head, freeBytes, nowMs, actions)
    const idle = this.#idle(({ name }) => name === head.name)
    if (idle.length > 0) {
      this.#close(idle, actions)
      return false
    }
    this.#requests.shift()
    actions.push({ kind: 'idle closed', request: head.request })
    return true
  }

  #serve(head: PoolRequest, freeBytes: number, nowMs: number, actions: SmallModelPoolAction[]): boolean {
    const model = this.#models.find(({ name }) => name === head.name)
    if (!model) return this.#refuse('unknown', actions)
    if (this.#entries.has(model.version)) return this.#lend(head, model.version, 0, nowMs, actions)
    const plan = planOpening(model.bytes, this.#states, { ...this.#settings, freeBytes })
    switch (plan.kind) {
      case 'refuse':
        return this.#refuse('too large', actions)
      case 'wait':
        return false
      case 'open':
        this.#opening = { model, startedMs: undefined }
        this.#close(plan.close, actions)
        return plan.close.length === 0
      default:
        return plan satisfies never
    }
  }

  #lend({ request }: PoolRequest, version: string, loadMs: number, nowMs: number, actions: SmallModelPoolAction[]): true {
    this.#requests.shift()
    const entry = this.#entries.get(version)!
    entry.borrowers += 1
    entry.usedMs = nowMs
    actions.push({ kind: 'lend', request, version, loadMs })
    return true
  }

  #refuse(why: OfKind<SmallModelPoolAction, 'refuse'>['why'], actions: SmallModelPoolAction[]): true {
    actions.push({ kind: 'refuse', request: this.#requests.shift()!.request, why })
    return true
  }

  #end(actions: SmallModelPoolAction[]): false {
    for (const { kind, request } of this.#requests.splice(0))
      actions.push(kind === 'borrow' ? { kind: 'refuse', request, why: 'ended' } : { kind: 'idle closed', request })
    if (this.#entries.size > 0) this.#close(this.open, actions)
    else actions.push({ kind: 'ended' })
    return false
  }

  #close(versions: readonly string[], actions: SmallModelPoolAction[]): void {
    for (const version of versions) {
      this.#entries.delete(version)
      this.#closing.add(version)
      actions.push({ kind: 'close', version })
    }
  }

  /** Versions of those models that are not borrowed. */
  #idle(isMeant: (entry: PoolEntry) => boolean): readonly string[] {
    const found: string[] = []
    for (const entry of this.#entries.values()) if (entry.borrowers === 0 && isMeant(entry)) found.push(entry.version)
    return found
  }

  get #states(): readonly OpenModelState[] {
    return [...this.#entries.values()].map(({ version, bytes, borrowers, usedMs }) => {
      return { name: version, bytes, usedMs, isBorrowed: borrowers > 0 }
    })
  }
}
