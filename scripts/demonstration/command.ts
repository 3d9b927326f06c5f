import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { CommandModule } from 'yargs'
import { untilAborted } from '../../core/base/clock.ts'
import { BrimError } from '../../core/base/errors.ts'
import type { Io } from '../../core/base/io.ts'
import { ensureDemoBundle } from '../../lab/cluster/demo-bundles.ts'
import { type BrimProcess, startBrim } from '../../lab/cluster/processes.ts'
import { layOutTable } from '../../lab/plot/table.ts'
import { type Answer, askByHat, openReference, type Question, type Reference } from './answers.ts'
import { DemoView } from './view.ts'

interface DemoOptions {
  json?: boolean | undefined
  keep: boolean
  'max-tokens': number
}

export function demoCommand(io: Io): CommandModule<object, DemoOptions> {
  return {
    command: 'demo',
    describe: 'a bridge, two devices and three private answers on this machine, checked against the whole model',
    builder: (yargs) =>
      yargs
        .usage('Usage: brim demo [options]')
        .example('brim demo', 'answers side by side, then a table')
        .example('brim demo --json | tail -n 1', 'the same figures as one JSON document')
        .example('brim demo --keep', 'leave bridge and devices running until Ctrl-C')
        .option('keep', { type: 'boolean', default: false, describe: 'leave everything running and print the endpoints' })
        .option('max-tokens', { type: 'number', default: 64, describe: 'longest answer, in tokens' }),
    handler: ({ json, keep, maxTokens }) => runDemo({ json: json === true, keep, maxTokens }, io),
  }
}

interface Wishes {
  readonly json: boolean
  readonly keep: boolean
  readonly maxTokens: number
}

const questions: readonly Omit<Question, 'maxTokens'>[] = [
  { device: 'jetson-01', prompt: 'Can you find me a nice restaurant in San Jose for two people?' },
  { device: 'jetson-02', prompt: 'Do you like to watch football on TV?' },
  { device: 'jetson-01', prompt: 'I want to transfer some money to my savings account.' },
]
const forTheWhole = { device: 'no network', prompt: 'What will the weather be like in London tomorrow?' }

async function runDemo(options: Wishes, io: Io): Promise<void> {
  io.err('demo: preparing the demonstration bundle')
  const bundle = await ensureDemoBundle()
  const state = await mkdtemp(join(tmpdir(), 'brim-demo-'))
  const started: BrimProcess[] = []
  const start = async (args: readonly string[]) => {
    const process = await startBrim(args, { env: io.env, signal: io.signal })
    started.push(process)
    return process
  }
  try {
    io.err('demo: starting a bridge and two devices')
    const bridge = await start([
      'bridge',
      'run',
      '--bundle',
      bundle,
      '--state-dir',
      join(state, 'bridge'),
      '--mqtt-port',
      '0',
      '--http-port',
      '0',
    ])
    const devices = [...new Set(questions.map((question) => question.device))]
    const agents = new Map(
      await Promise.all(
        devices.map(async (device) => {
          const where = ['--bridge', String(bridge.ready.mqttUrl), '--state-dir', join(state, device), '--api-port', '0']
          const agent = await start(['agent', 'run', '--bundle', bundle, '--id', device, ...where])
          return [device, String(agent.ready.apiUrl)] as const
        }),
      ),
    )
    const reference = await openReference(bundle, io.env.ORT_LIB)
    try {
      const answers = await askEverything(agents, reference, options, io)
      report(answers, options, io)
    } finally {
      await reference.release()
    }
    if (options.keep) await keepRunning(bridge, agents, io)
  } catch (error) {
    // Whatever broke off in the middle of a Ctrl-C did so because of it.
    throw io.signal.aborted ? new BrimError('CANCELED', 'the demonstration was interrupted') : error
  } finally {
    await Promise.all(started.map((process) => process.stop()))
    await rm(state, { recursive: true, force: true })
  }
}

async function askEverything(
  agents: ReadonlyMap<string, string>,
  reference: Reference,
  options: Wishes,
  io: Io,
): Promise<Answer[]> {
  const { maxTokens } = options
  const quiet = options.json
  const view = new DemoView(questions, io, quiet)
  const byHat = await Promise.all(
    questions.map((question, column) =>
      askByHat({ ...question, maxTokens }, agents.get(question.device) ?? '', (text) => view.add(column, text), io.signal),
    ),
  )
  view.close()
  const wholeView = new DemoView([forTheWhole], io, quiet)
  const whole = await reference.answer({ ...forTheWhole, maxTokens }, (text) => wholeView.add(0, text), io.signal)
  wholeView.close()
  const answers: Answer[] = []
  for (const { tokenIds, ...answer } of [...byHat, whole]) {
    const { identical, nearTies } = await reference.check(answer.prompt, tokenIds)
    answers.push({ ...answer, identical, nearTies })
  }
  return answers
}

function report(answers: readonly Answer[], options: Wishes, io: Io): void {
  const head = [
    'device',
    'mode',
    'tokens',
    'TTFT ms',
    'TBT p50',
    'p95',
    'accept length',
    'per trip',
    'KiB up',
    'down',
    'identical',
  ]
  const rows = answers.map((answer) => [
    answer.device,
    answer.mode,
    `${answer.tokens}`,
    ms(answer.ttftMs),
    ms(answer.tbtMs.p50),
    ms(answer.tbtMs.p95),
    answer.acceptLength?.toFixed(2) ?? '–',
    answer.roundTrips > 0 ? (answer.tokens / answer.roundTrips).toFixed(2) : '–',
    kib(answer.bytesUp),
    kib(answer.bytesDown),
    answer.identical ? 'yes' : 'NO',
  ])
  for (const line of layOutTable(head, rows)) (options.json ? io.err : io.out)(line)
  if (options.json) io.out(JSON.stringify({ answers }))
  const wrong = answers.filter((answer) => !answer.identical)
  if (wrong.length > 0)
    throw new BrimError('RUNTIME_FAILED', `${wrong.length} of ${answers.length} answers differ from the whole model's`, {
      hint: 'this is a bug: please report it with the output of brim doctor',
    })
}

async function keepRunning(bridge: BrimProcess, agents: ReadonlyMap<string, string>, io: Io): Promise<void> {
  io.err('')
  io.err(`bridge   ${bridge.ready.httpUrl}/health   MQTT ${bridge.ready.mqttUrl}`)
  for (const [device, url] of agents) io.err(`${device}  ${url}/v1`)
  const body = JSON.stringify({ model: 'brim', messages: [{ role: 'user', content: 'Is there a good hotel in Paris?' }] })
  io.err(`try: curl -s ${[...agents.values()][0]}/v1/chat/completions -H 'content-type: application/json' -d '${body}'`)
  io.err('Ctrl-C ends it')
  await untilAborted(io.signal)
}

const ms = (value: number) => value.toFixed(1)
const kib = (bytes: number) => (bytes === 0 ? '–' : (bytes / 1024).toFixed(1))
