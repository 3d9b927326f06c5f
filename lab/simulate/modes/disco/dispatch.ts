import type { ControlledSide, ControllerPlan } from '../../../../core/policy/disco/controller-plan.ts'
import { costOf, limitedSide, localCosts, type SideCosts } from '../../../../core/policy/disco/costs.ts'
import { createLocalTtft, createTokenCounts, createTtft, expectedRemaining } from '../../../../core/policy/disco/estimates.ts'
import { exchangeRate } from '../../../../core/policy/disco/exchange-rate.ts'
import { SilentStarts } from '../../../../core/policy/disco/silent-starts.ts'
import { localEstimate, remoteEstimate } from '../../../../core/policy/disco/start-estimates.ts'
import { preferredSide, startTimes } from '../../../../core/policy/disco/start-times.ts'
import { type Dispatch, otherSide, type Side, type TokenCosts } from '../../../../core/policy/disco/state.ts'
import type { DiscoSettings } from '../../scenario/disco-settings.ts'
import { draw } from '../../scenario/distribution.ts'
import type { Answer } from '../../world/answer.ts'
import type { Mode } from '../../world/mode.ts'
import type { SimulatedDevice } from '../../world/simulated-device.ts'
import type { World } from '../../world/world.ts'
import { splitAnswers } from '../hat/modes.ts'
import { DispatchedAnswer } from './dispatched-answer.ts'
import { EngineSide } from './engine-side.ts'
import { HatSide } from './hat-side.ts'
import { PacedSide } from './paced-side.ts'
import type { SimulatedSide } from './simulated-side.ts'
import { SmallModel, SmallModelSide } from './small-model.ts'

/** Modes of an agent (`DeviceMode`) that may use both sides. */
export type DispatchMode = 'fast' | 'cheap' | 'auto' | 'private'

/** Answers by device and server as the agent's `Planner` plans them. */
export function dispatchMode(world: World, mode: DispatchMode): Mode {
  const dispatch = dispatches.get(world) ?? new WorldDispatch(world)
  dispatches.set(world, dispatch)
  return { begin: (answer) => dispatch.begin(answer, mode) }
}

/** A device's modes share its small model, and what it has learned. */
const dispatches = new WeakMap<World, WorldDispatch>()

/** What answers have taught. */
class Known {
  /** F. */
  readonly ttftMs = createTtft()
  readonly silence = new SilentStarts()
  /** The same of HAT. */
  readonly hat = { ttftMs: createTtft(), silence: new SilentStarts() }
  readonly prompts = createTokenCounts()
  readonly answers = createTokenCounts()
  /** k·l + c. */
  readonly localTtft = createLocalTtft()
}

interface DispatchingDevice {
  readonly device: SimulatedDevice
  readonly model: SmallModel | undefined
  readonly known: Known
  /** Charge of its battery; undefined: mains. */
  readonly battery: number | undefined
}

const both: readonly Side[] = ['local', 'remote']
const never = Number.POSITIVE_INFINITY
/** A prompt at whose length the speed of small models is stated. */
const profiledTokens = 128
const joulesPerKwh = 3.6e6

class WorldDispatch {
  readonly #world: World
  readonly #settings: DiscoSettings
  readonly #price: TokenCosts | undefined
  readonly #devices = new Map<number, DispatchingDevice>()
  readonly #groups = new Map<string, Known>()
  /** F as the bridge announces it. */
  readonly #announced = createTtft()
  #bySplit: ReturnType<typeof splitAnswers> | undefined

  constructor(world: World) {
    const { scenario } = world
    this.#world = world
    this.#settings = scenario.policies.disco
    this.#price = world.server ? scenario.server?.dollarsPerToken : scenario.cloud?.dollarsPerToken
  }

  begin(answer: Answer, mode: DispatchMode): void {
    const { request, work } = answer
    const own = this.#deviceOf(request.device!)
    const { model, known } = own
    if (mode === 'auto') known.prompts.record(request.promptTokens)
    const announced = this.#world.server || mode === 'private' ? undefined : this.#announced
    const { ttftMs, silence } = mode === 'private' ? known.hat : known
    const server = remoteEstimate(ttftMs, announced, silence, this.#settings.patience)
    const profiledS = model ? model.prefillS(profiledTokens) : 0
    const device = localEstimate(known.localTtft, profiledTokens / profiledS)
    const remaining = (tokens: number) =>
      expectedRemaining(known.answers, tokens, this.#world.scenario.workload.maxOutputTokens - tokens)
    const costs: SideCosts = { remote: this.#price, local: model && this.#localCosts(own, model, request.promptTokens) }
    const localMs = device.startMs(request.promptTokens)
    const dispatch = this.#dispatch(answer, mode, own, costs, remaining, server, localMs)
    const release = model && dispatch.local < never ? model.reserve() : () => {}
    // The time that a start has waited for the small model tells nothing of its speed.
    let hasWaited = false

    const sides: { local?: SimulatedSide; remote: SimulatedSide } = { remote: this.#remoteSide(answer, mode, own.device) }
    const controlled: { local?: ControlledSide; remote: ControlledSide } = {
      remote: { continues: true, pauses: false, costs: costs.remote, startMs: server.startMs },
    }
    if (model) {
      const side = new SmallModelSide(model, answer)
      sides.local = {
        start(run) {
          release()
          hasWaited = model.isFull
          side.start(run)
        },
        pause: () => side.pause(),
        resume: () => side.resume(),
        stop: () => side.stop(),
      }
      const counted = (tokens: number) => (this.#settings.migrationCounts === 'answer' ? tokens : request.promptTokens)
      const startMs = (tokens: number) => (model.isFree ? device.startMs(counted(tokens)) : never)
      controlled.local = { continues: true, pauses: true, costs: costs.local, startMs }
    }
    const plan: ControllerPlan = {
      sides: controlled,
      dispatch,
      // Only where an answer may move to save money is it worth delivering it no faster than it is read.
      tokensPerS: mode === 'fast' ? 0 : request.tokensPerS,
      promptTokens: request.promptTokens,
      preferred: model && this.#settings.migrates ? preferredSide(mode, costs) : undefined,
      returns: this.#settings.returns,
      expectedRemaining: remaining,
    }
    const dispatched = new DispatchedAnswer(this.#world.simulation, plan, sides, request.outputTokens, {
      delivered: () => answer.deliver(1),
      firstToken(side, ms, tokens) {
        if (side === 'remote') {
          release()
          server.firstToken(ms, tokens)
        } else if (!hasWaited) device.firstToken(ms, tokens)
      },
      canceled(side, ms, tokens) {
        if (side === 'remote') server.canceled(ms, tokens)
      },
      ended: (hasFailed) => {
        release()
        const { controller } = dispatched
        const [onDevice, atServer] = both.map((side) => controller.workOf(side))
        work.devicePromptTokens = onDevice!.promptTokens
        work.deviceOutputTokens = onDevice!.tokens
        work.serverPromptTokens = atServer!.promptTokens
        work.serverOutputTokens = atServer!.tokens
        work.dollars += this.#price ? costOf(this.#price, atServer!) : 0
        for (const { succeeded, bufferTokens, delayedTokens } of controller.migrations) {
          if (!succeeded) continue
          work.migrations += 1
          work.bufferedTokens += bufferTokens
          work.delayedTokens += delayedTokens
        }
        if (!hasFailed) known.answers.record(request.outputTokens)
        answer.end(hasFailed ? 'no side can answer' : undefined)
      },
    })
    dispatched.begin()
  }

  #deviceOf(index: number): DispatchingDevice {
    const known = this.#devices.get(index)
    if (known) return known
    const device = this.#world.devices[index]!
    const made = {
      device,
      model: SmallModel.of(device, this.#settings.smallModelAnswers),
      known: this.#settings.learn === 'device' ? this.#profiled() : this.#knownTo(device.group),
      battery: this.#world.scenario.devices.find(({ name }) => name === device.group)?.battery,
    }
    this.#devices.set(index, made)
    return made
  }

  /** The paper's F and p(l) are known (§4.2). */
  #profiled(): Known {
    const known = new Known()
    const { server, simulation, scenario } = this.#world
    const { promptTokens } = scenario.workload
    const random = simulation.random('profiled starts')
    for (let at = 0; at < this.#settings.profiledStarts; at += 1) {
      if (server) known.ttftMs.record(server.draw(random).ttftMs)
      if (promptTokens !== undefined) known.prompts.record(Math.max(1, Math.round(draw(promptTokens, random))))
    }
    return known
  }

  #knownTo(group: string): Known {
    const known = this.#groups.get(group) ?? this.#profiled()
    this.#groups.set(group, known)
    return known
  }

  #localCosts({ device, battery }: DispatchingDevice, model: SmallModel, promptTokens: number): TokenCosts {
    const { deviceDollarsPerToken, dollarsPerKwh } = this.#settings
    if (deviceDollarsPerToken) return deviceDollarsPerToken
    const { computeW } = device.board.power
    const joules = {
      prompt: (computeW * model.prefillS(promptTokens)) / promptTokens,
      output: computeW * model.decodeS(promptTokens),
    }
    const condition = battery === undefined ? undefined : { level: battery, isPlugged: false }
    const setting = dollarsPerKwh === undefined ? undefined : dollarsPerKwh / joulesPerKwh
    return localCosts(joules, exchangeRate(condition, setting).dollarsPerJoule)
  }

  #dispatch(
    { request }: Answer,
    mode: DispatchMode,
    { model, known }: DispatchingDevice,
    costs: SideCosts,
    remaining: (tokens: number) => number,
    server: ReturnType<typeof remoteEstimate>,
    localMs: number,
  ): Dispatch {
    const { dispatch, share, tailShare, autoPatienceS } = this.#settings
    const patience = autoPatienceS === null ? undefined : { maxMs: autoPatienceS * 1_000, localMs }
    const constrained = limitedSide(this.#settings.constrained, costs)
    if (dispatch !== 'plan' && model) {
      const isLimited = this.#world.simulation.random(`dispatch of ${request.id}`).next() < share
      const alone = { local: never, remote: never, [isLimited ? constrained : otherSide(constrained)]: 0 }
      return dispatch === 'chance' ? alone : { ...alone, [otherSide(constrained)]: 0 }
    }
    return startTimes(mode, {
      can: { local: model !== undefined, remote: true },
      isLocalFree: model?.isFree ?? false,
      isRemoteSilent: server.isSilent,
      costs,
      patienceMs: patience?.maxMs,
      work: { promptTokens: request.promptTokens, tokens: mode === 'cheap' ? remaining(0) : 0 },
      dispatch: () => ({
        ...{ constrained, share, tailShare, patience },
        ...{ remoteTtftMs: server.ttftMs, promptLengths: known.prompts },
      }),
    })
  }

  #remoteSide(answer: Answer, mode: DispatchMode, device: SimulatedDevice): SimulatedSide {
    const { server, simulation } = this.#world
    if (mode === 'private') {
      this.#bySplit ??= splitAnswers(this.#world, 'hat')
      return new HatSide(this.#bySplit, answer)
    }
    if (!server) return new EngineSide(this.#world, device, answer, this.#announced)
    // The same latencies whatever the other requests do, so that policies can be compared.
    const random = simulation.random(`server ${answer.request.id}`)
    return new PacedSide(simulation, () => server.draw(random))
  }
}
