import { AnswerDispatcher, type AskedRemote, type DispatchQuestion } from '../../../../core/policy/disco/answer-dispatcher.ts'
import { costOf, limitedSide, localCosts } from '../../../../core/policy/disco/costs.ts'
import { DispatchEstimates } from '../../../../core/policy/disco/dispatch-estimates.ts'
import { createTtft } from '../../../../core/policy/disco/estimates.ts'
import { exchangeRate } from '../../../../core/policy/disco/exchange-rate.ts'
import { SmallModelUse } from '../../../../core/policy/disco/small-model-use.ts'
import { otherSide, type Side, type StartDelays, type TokenCosts } from '../../../../core/policy/disco/state.ts'
import type { DiscoSettings } from '../../scenario/disco-settings.ts'
import { draw } from '../../scenario/distribution.ts'
import type { Answer } from '../../world/answer.ts'
import type { Mode } from '../../world/mode.ts'
import type { SimulatedDevice } from '../../world/simulated-device.ts'
import type { World } from '../../world/world.ts'
import { splitAnswers } from '../hat/modes.ts'
import { sketchMode } from '../pice/sketch-mode.ts'
import { EngineSide } from './engine-side.ts'
import { HatSide } from './hat-side.ts'
import { PacedSide } from './paced-side.ts'
import type { SimulatedSide } from './simulated-side.ts'
import { SketchSide } from './sketch-side.ts'
import { SmallModel, SmallModelSide } from './small-model.ts'
import { TwoSidedAnswer } from './two-sided-answer.ts'

/** Modes of an agent (`DeviceMode`) that may use both sides; 'auto-private': auto, for text that is not to leave the device. */
export type DispatchMode = 'fast' | 'cheap' | 'auto' | 'private' | 'auto-private'

/** Answers by local and remote side, as the dispatcher of an agent plans them. */
export function dispatchMode(world: World, mode: DispatchMode): Mode {
  const dispatch = dispatches.get(world) ?? new WorldDispatch(world)
  dispatches.set(world, dispatch)
  return { begin: (answer) => dispatch.begin(answer, mode) }
}

/** A device's modes share its small model, and what it has learned. */
const dispatches = new WeakMap<World, WorldDispatch>()

interface DispatchingDevice {
  readonly device: SimulatedDevice
  readonly model: SmallModel | undefined
  readonly dispatcher: AnswerDispatcher
  /** Charge of its battery; undefined: mains. */
  readonly battery: number | undefined
}

const both: readonly Side[] = ['local', 'remote']
const never = Number.POSITIVE_INFINITY
/** A prompt at whose length the speed of small models is stated. */
const profiledTokens = 128
const joulesPerKwh = 3.6e6
/** Of what devices ask, for what they learn. */
const serverName = 'server'
const hatName = 'hat'
const plannedName = 'plan'

interface RemoteWay {
  readonly asked: AskedRemote
  side(): SimulatedSide
}

class WorldDispatch {
  readonly #world: World
  readonly #settings: DiscoSettings
  readonly #price: TokenCosts | undefined
  readonly #devices = new Map<number, DispatchingDevice>()
  readonly #groups = new Map<string, DispatchEstimates>()
  /** F as the bridge announces it. */
  readonly #announced = createTtft()
  #bySplit: ReturnType<typeof splitAnswers> | undefined
  #bySketch: Mode | undefined

  constructor(world: World) {
    const { scenario } = world
    this.#world = world
    this.#settings = scenario.policies.disco
    this.#price = world.server ? scenario.server?.dollarsPerToken : scenario.cloud?.dollarsPerToken
  }

  begin(answer: Answer, mode: DispatchMode): void {
    const { request, work } = answer
    const { device, model, dispatcher, battery } = this.#deviceOf(request.device!)
    const remotes = this.#remotesOf(answer, mode, device)
    const [first, ...others] = remotes.map(({ asked }) => asked)
    const sides: DispatchQuestion['sides'] = {
      remote: first,
      local: model && {
        continues: true,
        pauses: true,
        costs: this.#localCosts(model, battery, request.promptTokens),
        model: 'small',
        prefillTokensPerS: profiledTokens / model.prefillS(profiledTokens),
      },
    }
    const question: DispatchQuestion = {
      mode: mode === 'auto-private' ? 'auto' : mode,
      sides,
      ...(others.length > 0 && { instead: others }),
      promptTokens: request.promptTokens,
      maxTokens: this.#world.scenario.workload.maxOutputTokens,
      // Readers of the mode fast take tokens as fast as these come.
      ...(mode !== 'fast' && { tokensPerS: request.tokensPerS }),
    }
    const dispatch = this.#baseline(answer, sides)
    const draft = dispatcher.ask(dispatch ? { ...question, dispatch } : question)
    const plan = draft.begin(both)
    const remoteSide = remotes.find(({ asked }) => asked.name === draft.remote)!.side()
    const ways = { remote: remoteSide, ...(model && { local: new SmallModelSide(model, answer) }) }
    const dispatched = new TwoSidedAnswer(this.#world.simulation, plan, ways, request.outputTokens, {
      delivered: () => answer.deliver(1),
      ended: (hasFailed) => {
        const { controller } = dispatched
        const [local, remote] = both.map((side) => controller.workOf(side))
        work.devicePromptTokens = local!.promptTokens
        work.deviceOutputTokens = local!.tokens
        // A sketch is charged by what the LLM generates, not by what devices make of it.
        const sketched = remoteSide instanceof SketchSide ? remoteSide.work : undefined
        work.serverPromptTokens = sketched?.serverPromptTokens ?? remote!.promptTokens
        work.serverOutputTokens = sketched?.serverOutputTokens ?? remote!.tokens
        work.dollars += sketched?.dollars ?? (this.#price ? costOf(this.#price, remote!) : 0)
        work.joules += sketched?.joules ?? 0
        work.sketchTokens = sketched?.sketchTokens ?? 0
        const split = remoteSide instanceof HatSide ? remoteSide.work : undefined
        if (split) {
          const { rounds, gainedTokens, draftedTokens } = split
          Object.assign(work, { rounds, gainedTokens, draftedTokens })
        }
        for (const { succeeded, bufferTokens, delayedTokens } of controller.migrations) {
          if (!succeeded) continue
          work.migrations += 1
          work.bufferedTokens += bufferTokens
          work.delayedTokens += delayedTokens
        }
        plan.ended(hasFailed ? undefined : request.outputTokens)
        answer.end(hasFailed ? 'no side can answer' : undefined)
      },
    })
    dispatched.begin()
  }

  #deviceOf(index: number): DispatchingDevice {
    const known = this.#devices.get(index)
    if (known) return known
    const device = this.#world.devices[index]!
    const { autoPatienceS, patience, learn, smallModelAnswers, ...settings } = this.#settings
    const model = SmallModel.of(device, smallModelAnswers)
    const patienceMs = autoPatienceS === null ? undefined : autoPatienceS * 1_000
    const made = {
      device,
      model,
      dispatcher: new AnswerDispatcher(
        { ...settings, patienceMs, startsInTime: patience, tokensPerS: 0 },
        learn === 'device' ? this.#profiled() : this.#knownTo(device.group),
        model ?? new SmallModelUse(0),
      ),
      battery: this.#world.scenario.devices.find(({ name }) => name === device.group)?.battery,
    }
    this.#devices.set(index, made)
    return made
  }

  /** The paper's F and p(l) are known (§4.2). */
  #profiled(): DispatchEstimates {
    const estimates = new DispatchEstimates()
    const { server, simulation, scenario } = this.#world
    const { promptTokens } = scenario.workload
    const random = simulation.random('profiled starts')
    for (let at = 0; at < this.#settings.profiledStarts; at += 1) {
      if (server) estimates.remoteTtft(serverName).record(server.draw(random).ttftMs)
      if (promptTokens !== undefined) estimates.promptTokens.record(Math.max(1, Math.round(draw(promptTokens, random))))
    }
    return estimates
  }

  #knownTo(group: string): DispatchEstimates {
    const known = this.#groups.get(group) ?? this.#profiled()
    this.#groups.set(group, known)
    return known
  }

  #localCosts(model: SmallModel, battery: number | undefined, promptTokens: number): TokenCosts {
    const { deviceDollarsPerToken, dollarsPerKwh } = this.#settings
    if (deviceDollarsPerToken) return deviceDollarsPerToken
    const { computeW } = model.device.board.power
    const joules = {
      prompt: (computeW * model.prefillS(promptTokens)) / promptTokens,
      output: computeW * model.decodeS(promptTokens),
    }
    const condition = battery === undefined ? undefined : { level: battery, isPlugged: false }
    const setting = dollarsPerKwh === undefined ? undefined : dollarsPerKwh / joulesPerKwh
    return localCosts(joules, exchangeRate(condition, setting).dollarsPerJoule)
  }

  /** Stochastic dispatch, in place of a plan. */
  #baseline({ request }: Answer, { local, remote }: DispatchQuestion['sides']): StartDelays | undefined {
    const { dispatch, share, constrained } = this.#settings
    if (dispatch === 'plan' || !local) return undefined
    const limited = limitedSide(constrained, { local: local.costs, remote: remote?.costs })
    const isLimited = this.#world.simulation.random(`dispatch of ${request.id}`).next() < share
    const alone = { local: never, remote: never, [isLimited ? limited : otherSide(limited)]: 0 }
    return dispatch === 'chance' ? alone : { ...alone, [otherSide(limited)]: 0 }
  }

  /** Those that the mode allows; in auto the settings say which. */
  #remotesOf(answer: Answer, mode: DispatchMode, device: SimulatedDevice): readonly RemoteWay[] {
    const { server, simulation } = this.#world
    const { sketches, splitting } = this.#settings
    const common = { costs: this.#price, continues: true, pauses: false }
    const hat: RemoteWay = {
      asked: { ...common, name: hatName },
      side: () => {
        this.#bySplit ??= splitAnswers(this.#world, 'hat')
        return new HatSide(this.#bySplit, answer)
      },
    }
    if (mode === 'private' || mode === 'auto-private') return [hat]
    const cloud: RemoteWay = {
      asked: { ...common, name: serverName, announced: server ? undefined : this.#announced },
      side: () => {
        if (!server) return new EngineSide(this.#world, device, answer, this.#announced)
        // The same latencies whatever the other requests do, so that policies can be compared.
        const random = simulation.random(`server ${answer.request.id}`)
        return new PacedSide(simulation, () => server.draw(random))
      },
    }
    if (mode !== 'auto') return [cloud]
    const planned: RemoteWay = {
      asked: { ...common, continues: false, name: plannedName },
      side: () => {
        this.#bySketch ??= sketchMode(this.#world, 'dynamic')
        return new SketchSide(this.#world, this.#bySketch, device, answer)
      },
    }
    return [cloud, ...(sketches ? [planned] : []), ...(splitting.includes(device.group) ? [hat] : [])]
  }
}
