import type { ApiModel } from '../../core/answer/api/served.ts'
import type { AnswerRequest, Endpoint } from '../../core/answer/endpoint/endpoint.ts'
import { readApiKey } from '../../core/answer/upstream/api-key.ts'
import { upstreamEndpoint } from '../../core/answer/upstream/endpoint.ts'
import { upstreamLimitsOf } from '../../core/answer/upstream/limit-table.ts'
import { promptTokensOf } from '../../core/answer/upstream/request-body.ts'
import { nowIso } from '../../core/kit/base/clock.ts'
import { BrimError } from '../../core/kit/base/errors.ts'
import { KeptConnections } from '../../core/kit/base/kept-connections.ts'
import { nextSeed } from '../../core/kit/base/next-seed.ts'
import { seededRandom } from '../../core/kit/base/random.ts'
import type { Store } from '../../core/kit/store/open-database.ts'
import { DispatchMachine } from '../../core/policy/disco/dispatch-machine.ts'
import { flopsOf } from '../../core/policy/disco/flops.ts'
import { strictEnough } from '../../core/policy/disco/strict-mode.ts'
import { FieldError } from '../../core/wire/openai/api-error.ts'
import { PromptRules } from '../disclosures/prompt-rules.ts'
import type { BridgeHttp } from '../disco/ask-bridge.ts'
import { bridgeLlm } from '../disco/bridge-llm.ts'
import { bridgeSketches } from '../disco/bridge-sketches.ts'
import type { Budget } from '../disco/budget.ts'
import type { RemoteCandidate } from '../disco/candidate.ts'
import { type BegunAnswer, discoEndpoint } from '../disco/endpoint.ts'
import type { Candidates } from '../disco/modes.ts'
import { anyRequest, DispatchPlanner } from '../disco/planner.ts'
import { singleEndpoint } from '../disco/single-endpoint.ts'
import { SmallModelSlots } from '../disco/small-model-slots.ts'
import { StoredEstimates } from '../disco/stored-estimates.ts'
import type { BridgeCredentials } from '../identity/identities.ts'
import type { BridgeLinks } from '../link/bridge-links.ts'
import type { ActiveModels } from '../models/active-models.ts'
import type { Answering } from './answering.ts'
import type { Base } from './base.ts'
import { bridgeHttp } from './bridge-http.ts'

/** Of HAT, for what is learned of it. */
const hatName = 'hat'
/** Of answers, for the size of a model that has not written one. */
const typicalWork = { promptTokens: 128, tokens: 128 }
/** Between two looks whether a bridge is back, under an answer that waits for it. */
const linkCheckMs = 500

interface Server {
  /** Names it and its model, for what is learned of it. */
  readonly name: string
  readonly endpoint: Endpoint
  readonly continues: boolean
  readonly maxPromptTokens?: (request: AnswerRequest) => number
  untilReachable?(signal: AbortSignal): Promise<void>
}

/** What answers requests now, and what is known of that. */
export interface AnswerDispatch {
  readonly planner: DispatchPlanner
  /** @throws BrimError MODEL_MISSING where nothing can answer */
  readonly model: ApiModel
  /** Why requests that name no mode would fail; undefined: they would not. */
  readonly problem: BrimError | undefined
  /** Whether requests that name no mode need a bridge. */
  readonly needsLink: boolean
  /** For /health. */
  readonly health: object
}

/**
 * Answers in every mode (DiSCo): an endpoint made of HAT, the small model and the configured server, whichever there are when a
 * request comes.
 * @throws BrimError CONFIG_INVALID for the server's key
 */
export function openDispatch(
  base: Base,
  { store, identities }: { readonly store: Store; readonly identities: BridgeCredentials },
  models: ActiveModels,
  links: BridgeLinks,
  answering: Answering,
  budget: Budget,
): AnswerDispatch {
  const { config, clock, closers, logger, disclosures } = base
  const log = logger.child({ component: 'dispatch' })
  const estimates = new StoredEstimates(store, log)
  closers.push(() => estimates.save())
  const { constrained, share, autoPatienceS, tokensPerS } = config.dispatch
  const smallModelAnswers = config.limits.slmAnswers
  const settings = { constrained, share, patienceMs: autoPatienceS * 1_000, tokensPerS, smallModelAnswers }
  const dispatch = new DispatchMachine(settings, estimates)
  const machine = base.recording?.of('disco', { ...settings, known: estimates.stored() }, dispatch) ?? dispatch
  const slots = new SmallModelSlots(
    config.limits,
    (isUsed) => void machine.handle({ kind: 'small model', isUsed }, clock.nowMs()),
  )
  const connections = new KeptConnections()
  const bridge = () => {
    const at = bridgeHttp(links.best, identities)
    return at && { ...at, connections }
  }
  const openServer = serverOpener(base, models, bridge, untilLinked, log)
  const sketches = sketchesOf('sketch', base, bridge, untilLinked, log)
  const planned = sketchesOf('auto', base, bridge, untilLinked, log)

  function candidates(): Candidates {
    const { hat, slm } = answering
    const server = openServer()
    const own = models.slm
    // Of its own model's answers: the nearest to what HAT and sketches will take, before they have been measured.
    const { answerTtftMs: announced, answerMsPerToken: announcedMsPerToken } = links.best
    return {
      hasServer: config.server !== undefined,
      hat: hat && {
        spender: 'hat',
        name: hatName,
        endpoint: hat.endpoint,
        continues: true,
        pauses: true,
        announced,
        isReachable: isLinked(),
        untilReachable: untilLinked,
      },
      slm: slm &&
        own && {
          spender: 'slm',
          model: own.source.modelId,
          endpoint: slm,
          continues: true,
          pauses: true,
          prefillTokensPerS: own.speed.prefillTokensPerS,
          flopsPerToken: flopsOf(own.source.dims, typicalWork).prompt,
        },
      sketches,
      planned: planned && { ...planned, announced, announcedMsPerToken, isReachable: isLinked() },
      server: server && {
        ...server,
        spender: 'server',
        pauses: false,
        ...(config.server?.at === 'bridge' && { way: 'bridge', isReachable: isLinked(), announced, announcedMsPerToken }),
      },
    }
  }

  function isLinked(): boolean {
    return links.problems.length === 0
  }

  /** Resolves once a bridge responds. */
  async function untilLinked(signal: AbortSignal): Promise<void> {
    do await clock.sleep(linkCheckMs, signal)
    while (!isLinked())
  }

  const problem = () => models.problem ?? new BrimError('MODEL_MISSING', 'the model of this device is being replaced')
  const planner = new DispatchPlanner({
    mode: config.dispatch.mode,
    candidates,
    problem,
    dispatch,
    machine,
    slots,
    budget,
    clock,
  })
  const openedAt = nowIso()
  const rules = new PromptRules(config.privacy, log)

  /** In the mode that was asked for, or in a stricter one that the owner's rules demand. @throws FieldError where it cannot answer */
  async function begin(given: AnswerRequest, signal: AbortSignal): Promise<BegunAnswer> {
    const asked = planner.modeOf(given)
    const applied = await rules.appliedTo(given, asked, signal)
    const { llm, slm } = answering
    const mode = applied ? strictEnough(applied.mode, { hat: llm !== undefined, smallModel: slm !== undefined }) : asked
    const request = { ...given, mode }
    if (applied) checkRuled(planner, request, applied.name)
    const reason = applied ? 'rule' : mode === 'auto' ? 'auto' : given.mode === mode ? 'client' : 'default'
    const { answer, end } = disclosures.begin({ mode, reason, rule: applied?.name ?? null })
    return { request: { ...request, disclosed: { answer, rule: applied && { name: applied.name, asked } } }, end }
  }

  /** HAT, for a private answer that the small model does not go on with and that is delivered as fast as it comes. */
  function alone(request: AnswerRequest): Endpoint | undefined {
    const { llm, slm } = answering
    const { fallback, isWhole, tokensPerS = 0 } = request
    const isPaced = tokensPerS > 0 && !isWhole
    if (request.isExplained || planner.modeOf(request) !== 'private' || !llm || (fallback === 'slm' && slm) || isPaced)
      return undefined
    return singleEndpoint(llm.endpoint, {
      clock,
      onEnded(single) {
        budget.count('hat', single)
        machine.handle({ kind: 'single', name: hatName, single }, clock.nowMs())
      },
    })
  }

  return {
    planner,
    get model() {
      const { llm, slm } = answering
      const model = llm?.text ?? slm?.model ?? openServer()?.endpoint.model ?? sketches?.endpoint.model
      if (!model) throw problem()
      const plan = (request: AnswerRequest, signal: AbortSignal) => planner.plan(request, signal)
      const endpoint = discoEndpoint({ model, clock, begin, alone, plan })
      return { name: model.name, endpoint, createdAt: llm?.manifest.card.createdAt ?? openedAt }
    },
    get problem() {
      try {
        planner.check(anyRequest)
        return undefined
      } catch (error) {
        if (error instanceof BrimError) return error
        throw error
      }
    },
    get needsLink() {
      const { dispatch, server } = config
      return dispatch.mode === 'private' || (dispatch.mode === 'cloud' && server?.at === 'bridge')
    },
    get health() {
      const { mode } = config.dispatch
      const server = openServer()
      const own = server && estimates.remoteTtft(server.name)
      const ttftMs = (level: number) => (own && own.weight > 0 ? Math.round(own.quantile(level)) : null)
      return {
        mode,
        server: config.server
          ? { at: config.server.at, model: server?.endpoint.model.name ?? null, ttftMs: { p50: ttftMs(0.5), p95: ttftMs(0.95) } }
          : null,
      }
    },
  }
}

/** @throws FieldError REQUEST_INVALID, which names the rule */
function checkRuled(planner: DispatchPlanner, request: AnswerRequest, rule: string): void {
  try {
    planner.check(request)
  } catch (error) {
    const why = `the rule ${rule} of this device's owner has this prompt answered in the mode "${request.mode}"`
    throw new FieldError('REQUEST_INVALID', 'brim.mode', `${why}: ${error instanceof Error ? error.message : ''}`)
  }
}

/** Undefined: the bridge may not see questions. */
function sketchesOf(
  mode: 'sketch' | 'auto',
  { config, clock, disclosures }: Base,
  bridge: () => BridgeHttp | undefined,
  untilReachable: (signal: AbortSignal) => Promise<void>,
  logger: Base['logger'],
): RemoteCandidate | undefined {
  const { server, limits } = config
  if (server?.at !== 'bridge') return undefined
  const random = seededRandom(nextSeed())
  const endpoint = bridgeSketches({
    bridge,
    leavingOf: disclosures.text('sketches'),
    limits: upstreamLimitsOf('server', limits),
    mode,
    clock,
    random,
    logger,
  })
  const name = mode === 'sketch' ? 'sketches of the bridge' : 'plan of the bridge'
  return { spender: 'server', way: 'sketches', name, endpoint, continues: false, pauses: false, untilReachable }
}

/** @returns the server as it is now; undefined: none is configured, or the bridge's model is not on this device */
function serverOpener(
  { config, clock, disclosures }: Base,
  models: ActiveModels,
  bridge: () => BridgeHttp | undefined,
  untilLinked: (signal: AbortSignal) => Promise<void>,
  logger: Base['logger'],
) {
  const { server, limits } = config
  if (!server) return () => undefined
  const common = {
    limits: upstreamLimitsOf('server', limits),
    clock,
    random: seededRandom(nextSeed()),
    leavingOf: disclosures.text(server.at === 'bridge' ? 'bridge' : 'server'),
    logger: logger.child({ server: server.at }),
  }
  if (server.at !== 'bridge') {
    const { at: url, model = '', keyFile, continues } = server
    const key = () => (keyFile === undefined ? undefined : readApiKey(keyFile))
    key()
    const opened: Server = {
      name: `${url} ${model}`,
      endpoint: upstreamEndpoint({ ...common, url, model, serverName: `the server of ${model}`, key, continues }),
      continues,
      maxPromptTokens: (request) => promptTokensOf(request).most,
    }
    return () => opened
  }
  let opened: (Server & { readonly of: unknown }) | undefined
  return (): Server | undefined => {
    const { current } = models.llm
    if (opened?.of === current) return opened
    if (!current) return undefined
    const { text, manifest } = current.model
    const { modelId } = manifest
    const endpoint = bridgeLlm({ ...common, model: text, modelId, bridge })
    opened = { of: current, name: `bridge ${modelId}`, endpoint, continues: true, untilReachable: untilLinked }
    return opened
  }
}
