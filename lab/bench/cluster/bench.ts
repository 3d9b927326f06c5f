import { systemClock } from '../../../core/kit/base/clock.ts'
import { isTerminal, type JobState } from '../../../core/policy/jobs/job.ts'
import { dataPath } from '../../../core/wire/protocol/messages.ts'
import { startBalancer } from '../../cluster/balancer.ts'
import { Cluster } from '../../cluster/cluster.ts'
import { ensureDemoBundle } from '../../cluster/demo-bundles.ts'
import { JobClient } from '../../cluster/job-client.ts'
import { connectJobDevice } from '../../cluster/job-device.ts'
import { laboratoryProgram, startBrim } from '../../cluster/processes.ts'
import { portOf } from '../../cluster/relay.ts'
import { type BridgeNode, type SeveralBridges, severalBridges, sharedDatabase } from '../../cluster/several-bridges.ts'
import type { BenchContext } from '../../frame/bench.ts'
import { benchCommand } from '../../frame/command.ts'
import { barPanel } from '../../frame/panels.ts'
import { maxOf, medianOrNull, quantileOrNull } from '../../frame/statistics.ts'
import { tabledBench } from '../../frame/tabled-bench.ts'
import { type AnswerRun, answerUntil, undisturbed } from './answers.ts'
import { type AskedRun, askUntil, type Fault } from './asked.ts'
import { batchSize, type EnqueueRun, timeEnqueue } from './enqueue.ts'

const faultNames = ['kill the primary', 'pause the primary', 'stop the primary', 'restart PostgreSQL', 'kill the broker'] as const
type FaultName = (typeof faultNames)[number]

interface FaultRun {
  readonly what: 'fault'
  readonly fault: FaultName
  /** From the fault to the next job that is acknowledged. */
  readonly outageS: number
}

/** What became of one job. */
interface JobRun {
  readonly what: 'job'
  readonly key: string
  readonly state: string
  /** Acknowledged, and unknown or not SUCCEEDED in the end. */
  readonly lost: boolean
  /** Ended more than once, or another job has its key. */
  readonly doubled: boolean
  /** Not ended `settleMs` after the last fault. */
  readonly stuck: boolean
}

interface JobTotals {
  readonly what: 'totals'
  readonly jobs: number
  readonly dispatchP50Ms: number | null
}

type ClusterRun = FaultRun | JobRun | JobTotals | EnqueueRun | AnswerRun | AskedRun

const count = (matches: (job: JobRun) => boolean) => (runs: readonly ClusterRun[]) =>
  runs.filter((run) => run.what === 'job' && matches(run)).length
const outage = (faults: readonly FaultName[]) => (runs: readonly ClusterRun[]) =>
  maxOf(runs.flatMap((run) => (run.what === 'fault' && faults.includes(run.fault) ? [run.outageS] : []))) ?? null
const totals = (of: (run: JobTotals) => number | null) => (runs: readonly ClusterRun[]) =>
  runs.flatMap((run) => (run.what === 'totals' ? [of(run)] : []))[0] ?? null

const answers = (matches: (run: AnswerRun) => boolean) => (runs: readonly ClusterRun[]) =>
  runs.filter((run) => run.what === 'answer' && matches(run)).length
const asked = (matches: (run: AskedRun) => boolean) => (runs: readonly ClusterRun[]) =>
  runs.filter((run) => run.what === 'asked' && matches(run)).length
/** Of answers during faults. */
const stalls = (runs: readonly ClusterRun[], matches: (run: AnswerRun) => boolean) =>
  runs.flatMap((run) => (run.what === 'answer' && run.stallS !== null && matches(run) ? [run.stallS] : []))

const settleMs = 60_000
/** Longer than a lease. */
const pauseMs = 20_000
const names = ['a', 'b', 'c']
/** Of a step of the bridge's model: without it, answers would be over too soon for a fault to come in their midst. */
const paceMs = 60

export const clusterBench = tabledBench<ClusterRun>({
  name: 'cluster',
  title: 'Several bridges',
  contents: 'every fault, every answer during one, and every job or answer that went wrong',
  figureText: 'Outage after each fault',
  quickLimit: '3 minutes',
  quickRepetitions: 1,
  figures: {
    jobs: [totals(({ jobs }) => jobs)],
    lost: [count(({ lost }) => lost), { max: 0 }],
    doubled: [count(({ doubled }) => doubled), { max: 0 }],
    stuck: [count(({ stuck }) => stuck), { max: 0 }],
    takeoverMaxS: [outage(['kill the primary', 'pause the primary']), { max: 10 }],
    handOverMaxS: [outage(['stop the primary'])],
    databaseOutageS: [outage(['restart PostgreSQL'])],
    brokerOutageS: [outage(['kill the broker'])],
    enqueueOverSqlite: [
      (runs) => medianOrNull(runs.flatMap((run) => (run.what === 'enqueue' ? [run.aloneMs / run.sharedMs] : []))),
      { min: 0.5 },
    ],
    dispatchP50Ms: [totals(({ dispatchP50Ms }) => dispatchP50Ms), { max: 10 }],
    answers: [answers(() => true)],
    answersBroken: [answers(({ broken }) => broken !== null), { max: 0 }],
    answersMoved: [answers(({ moves }) => moves > 0)],
    stallP99S: [
      (runs) =>
        quantileOrNull(
          stalls(runs, ({ moves }) => moves === 0),
          0.99,
        ),
      { max: 2 },
    ],
    fullAnswers: [asked(({ mode }) => mode === 'full')],
    sketches: [asked(({ mode }) => mode === 'sketch')],
    askedBroken: [asked(({ broken, isHit }) => broken !== null && !isHit), { max: 0 }],
    movedStallMaxS: [(runs) => maxOf(stalls(runs, ({ moves }) => moves > 0))],
  },
  measure: async (context) => measureCluster(context.quick ? quick : full, context),
  keptRuns: (runs) =>
    runs.filter((run) => {
      if (run.what === 'asked') return run.broken !== null
      if (run.what === 'answer') return run.broken !== null || run.stallS !== null
      return run.what !== 'job' || run.lost || run.doubled || run.stuck
    }),
  show: ({ conditions, runs }) => ({
    figure: {
      title: 'From a fault to the next job that is acknowledged',
      subtitle: `${conditions.cpu}; ${names.length} processes, one PostgreSQL, one mosquitto`,
      columns: 1,
      panels: [
        barPanel(
          'Outage',
          's',
          runs.flatMap((run, at) => (run.what === 'fault' ? [[`${at + 1}`, run.fault, run.outageS] as const] : [])),
        ),
      ],
    },
    conditions: `${names.length} \`brim bridge run --database\` processes, PostgreSQL with fsync and mosquitto on one machine of ${conditions.cores} cores
(${conditions.cpu}); ${conditions.devices} devices, which are MQTT connections that finish each job at once; ${conditions.perS} jobs a
second, submitted to each bridge in turn.

- Faults, one after the other: SIGKILL of the primary; SIGSTOP of the primary for ${pauseMs / 1_000} s, then SIGCONT; SIGTERM of the primary; a restart of
  PostgreSQL that takes 2 s; SIGKILL of mosquitto, which keeps nothing. A process that has ended is started again.
- *lost*: acknowledged to the submitter, and not SUCCEEDED in the end. *doubled*: ended twice, or two jobs under one key. *stuck*: not ended
  ${settleMs / 1_000} s after the last fault.
- *answers*: of ${conditions.agents} devices that answer one question after the other together with the bridge, in steps of ${paceMs} ms, over connections that a
  load balancer spreads over the processes. *answersBroken*: failed, or with other tokens than undisturbed. *stallP99S*: longest time without
  text of an answer during a fault whose process lived; *movedStallMaxS*: of one that went on at another process.
- *fullAnswers*, *sketches*: one after the other asked of each process, in modes full and sketch. *askedBroken*: of those that have failed after their first
  text, those whose process was not hit by a fault: the one that was asked in full, the primary for a sketch.
- *enqueueOverSqlite*: jobs per second of a bridge with \`--database\` over those of one without, ${conditions.batch} jobs a request, in turn.`,
  }),
})

/** `brim bench cluster` */
export const command = benchCommand(clusterBench)

export interface Effort {
  readonly faults: readonly FaultName[]
  readonly devices: number
  /** Devices that answer. */
  readonly agents: number
  readonly perS: number
  /** Requests of the comparison with SQLite. */
  readonly requests: number
  readonly pauseMs: number
}

const quick: Effort = { faults: faultNames, devices: 100, agents: 3, perS: 20, requests: 20, pauseMs }
const full: Effort = { ...quick, faults: [...faultNames, ...faultNames, ...faultNames], devices: 300, perS: 50, requests: 60 }

export async function measureCluster(effort: Effort, { progress, io }: BenchContext) {
  const { devices, agents: agentCount, perS, requests } = effort
  progress('starting PostgreSQL, mosquitto and three bridges')
  const bundle = await ensureDemoBundle()
  const slm = await ensureDemoBundle('slm-wide')
  const served = ['--bundle', bundle, '--step-ms', String(paceMs)]
  await using world = await severalBridges(io.env, { answers: served, fsync: true, program: laboratoryProgram })
  const nodes = new Map(await Promise.all(names.map(async (name) => [name, await world.start(name)] as const)))
  await using balancer = await startBalancer([...nodes.values()].map(({ url }) => portOf(url)))
  await using cluster = await Cluster.create({ bundle, env: io.env, signal: io.signal })
  const agents = await Promise.all(
    Array.from({ length: agentCount }, (_, at) => {
      const args = ['--data-url', `ws://127.0.0.1:${balancer.port}${dataPath}`]
      return cluster.startAgent({ id: `answering-${at + 1}`, bridges: [world.broker.url], args })
    }),
  )
  const expanding = await cluster.startAgent({ id: 'expanding', bridges: [world.broker.url], args: ['--slm', slm] })
  const apis = agents.map(({ ready }) => ready.apiUrl)
  const expected = await undisturbed(apis[0]!, io.signal)
  const clients = [...nodes.values()].map(({ url }) => new JobClient(url, io.signal, { maxUnreachableMs: settleMs }))
  progress(`connecting ${devices} devices`)
  const connections = await Promise.all(
    Array.from({ length: devices }, (_, at) =>
      connectJobDevice(world.broker.url, { id: `device-${at + 1}`, reconnectMs: 250 }, () => {}),
    ),
  )
  try {
    const submitted = new Map<string, string>()
    const ended = new AbortController()
    const faults: Fault[] = []
    const onFault = (node: string | undefined) => faults.push({ atMs: systemClock.nowMs(), node })
    const [runs, , answered, askedRuns] = await Promise.all([
      inject(effort, world, nodes, submitted, onFault, progress).finally(() => ended.abort()),
      submitUntil(ended.signal, clients, perS, submitted),
      answerUntil(ended.signal, apis, expected, faults, io.signal),
      askUntil(ended.signal, nodes, faults, io.signal),
    ])
    progress(`${submitted.size} jobs; waiting for the last of them`)
    const jobs = await examine(clients, submitted)
    const totalsRun = { what: 'totals' as const, jobs: jobs.length, dispatchP50Ms: (await clients[0]!.dispatchMs()).p50 }
    // They would take the jobs of the comparison.
    await Promise.all([...agents, expanding].map((agent) => agent.kill()))
    const alone = ['--upstream', 'http://127.0.0.1:9/v1', '--upstream-model', 'none', '--mqtt-port', '0', '--http-port', '0']
    const single = await startBrim(['bridge', 'run', ...alone, '--state-dir', `${world.dir}/alone`], { env: io.env })
    const enqueued = await timeEnqueue(nodes.get('a')!.url, String(single.ready.httpUrl), requests, progress).finally(single.stop)
    const conditions = { devices, agents: agentCount, perS, batch: batchSize }
    return { conditions, runs: [...runs, ...jobs, totalsRun, ...enqueued, ...answered, ...askedRuns] }
  } finally {
    await Promise.all(connections.map((connection) => connection.endAsync(true)))
  }
}

async function inject(
  { faults, pauseMs: pause }: Effort,
  world: SeveralBridges,
  nodes: Map<string, BridgeNode>,
  submitted: ReadonlyMap<string, string>,
  onFault: (node: string | undefined) => void,
  progress: (line: string) => void,
): Promise<FaultRun[]> {
  const runs: FaultRun[] = []
  for (const [at, fault] of faults.entries()) {
    await systemClock.sleep(2_000)
    progress(`fault ${at + 1} of ${faults.length}: ${fault}`)
    const primary = await primaryOf(nodes)
    const { process: victim } = nodes.get(primary)!
    const startedMs = systemClock.nowMs()
    onFault(/primary$/.test(fault) ? primary : undefined)
    const restart = async () => void nodes.set(primary, await world.start(primary))
    let repair = async () => {}
    switch (fault) {
      case 'kill the primary':
        await victim.kill()
        repair = restart
        break
      case 'stop the primary':
        await victim.stop()
        repair = restart
        break
      case 'pause the primary':
        process.kill(victim.pid, 'SIGSTOP')
        repair = async () => {
          await systemClock.sleep(Math.max(0, pause - (systemClock.nowMs() - startedMs)))
          process.kill(victim.pid, 'SIGCONT')
        }
        break
      case 'restart PostgreSQL':
        await world.postgres.stop()
        await systemClock.sleep(2_000)
        await world.postgres.start()
        break
      case 'kill the broker':
        await world.broker.restart()
        break
      default:
        fault satisfies never
    }
    const before = submitted.size
    while (submitted.size === before && systemClock.nowMs() - startedMs < settleMs) await systemClock.sleep(20)
    runs.push({ what: 'fault', fault, outageS: (systemClock.nowMs() - startedMs) / 1_000 })
    await repair()
  }
  return runs
}

/** @throws Error where there is none for a minute */
async function primaryOf(nodes: ReadonlyMap<string, BridgeNode>): Promise<string> {
  for (let at = 0; at < 600; at++) {
    for (const { url } of nodes.values()) {
      const shared = await sharedDatabase(url)
      if (shared) return shared.primary
    }
    await systemClock.sleep(100)
  }
  throw new Error('no bridge has become the primary')
}

/** Each job under a key of its own, to each bridge in turn. */
async function submitUntil(
  stop: AbortSignal,
  clients: readonly JobClient[],
  perS: number,
  submitted: Map<string, string>,
): Promise<void> {
  const sent: Promise<void>[] = []
  for (let at = 0; !stop.aborted; at++) {
    const key = `job-${at}`
    const limits = { attempts: 100, deadlineS: 3_600, timeouts: { acceptS: 2 }, disconnect: { lostAfterS: 2 } }
    const job = { kind: 'slm.generate', input: { prompt: 'Is this done once?' }, ...limits }
    sent.push(clients[at % clients.length]!.submit(job, key).then((id) => void submitted.set(key, id)))
    await systemClock.sleep(1_000 / perS)
  }
  await Promise.all(sent)
}

async function examine(clients: readonly JobClient[], submitted: ReadonlyMap<string, string>): Promise<JobRun[]> {
  const [client] = clients as readonly [JobClient]
  const runs: JobRun[] = []
  const giveUpMs = systemClock.nowMs() + settleMs
  for (const [key, id] of submitted) {
    let job = await client.show(id)
    while (job && !isTerminal(job.state) && systemClock.nowMs() < giveUpMs) {
      await systemClock.sleep(50)
      job = await client.show(id)
    }
    const stuck = job !== undefined && !isTerminal(job.state)
    const ends = (await client.history(id)).filter((type) => isTerminal(type.toUpperCase() as JobState)).length
    const sameKey = await client.submit({ kind: 'slm.generate', input: { prompt: 'Is this done once?' } }, key)
    runs.push({
      what: 'job',
      key,
      state: job?.state ?? 'unknown',
      lost: job?.state !== 'SUCCEEDED' && !stuck,
      doubled: ends > 1 || sameKey !== id,
      stuck,
    })
  }
  return runs
}
