import { relative } from 'node:path'
import { fileURLToPath } from 'node:url'
import { z } from 'zod'
import { untilAborted } from '../../core/kit/base/clock.ts'
import { BrimError } from '../../core/kit/base/errors.ts'
import type { Io } from '../../core/kit/base/io.ts'
import { portIsFree } from '../../core/kit/base/port-is-free.ts'
import { nonEmpty } from '../../core/kit/base/setting-kinds.ts'
import { projectRoot } from '../../core/kit/base/version.ts'
import { defineCommand } from '../../core/kit/cli/command.ts'
import { type BridgeNode, Cluster } from '../../lab/cluster/cluster.ts'
import { ensureDemoBundle } from '../../lab/cluster/demo-bundles.ts'
import { layOutTable } from '../../lab/plot/table.ts'
import { askByHat, type DemoAnswer, type DemoQuestion, openReference, type Reference } from './answers.ts'
import { DemoView } from './view.ts'

/** `brim demo` */
export const command = defineCommand({
  examples: [
    ['brim demo', 'answers side by side, then a table'],
    ['brim demo --json | tail -n 1', 'the same figures as one JSON document'],
    ['brim demo --provider webgpu --max-tokens 8', 'on a GPU, compared with the reference there'],
    ['brim demo --keep', 'keep bridge and devices running until Ctrl-C'],
  ],
  options: {
    keep: z
      .boolean()
      .default(false)
      .describe('keep bridge and devices running, on the documented ports where these are free, and print commands to try'),
    maxTokens: z.int().min(1).default(64).describe('max tokens of an answer'),
    provider: nonEmpty
      .default('cpu')
      .describe('what computes, on devices, bridge and reference: cpu, webgpu, cuda, or the name of a provider of ONNX Runtime'),
    providerPlugin: nonEmpty
      .optional()
      .meta({ description: 'library of that provider, a plug-in of ONNX Runtime', fallback: 'none' }),
  },
  run: runDemo,
})

/** Of the first device; those of the others follow. */
const firstApiPort = 7071

interface DemoRun {
  readonly json: boolean
  readonly keep: boolean
  readonly maxTokens: number
  readonly provider: string
  readonly providerPlugin?: string | undefined
}

const questions: readonly Omit<DemoQuestion, 'maxTokens'>[] = [
  { device: 'jetson-01', prompt: 'Can you find me a nice restaurant in San Jose for two people?' },
  { device: 'jetson-02', prompt: 'Do you like to watch football on TV?' },
  { device: 'jetson-01', prompt: 'I want to transfer some money to my savings account.' },
]
const questionToWholeModel = { device: 'no network', prompt: 'What will the weather be like in London tomorrow?' }

async function runDemo(options: DemoRun, io: Io): Promise<void> {
  io.err('demo: building the demonstration bundle, unless an earlier run has built it')
  const bundle = await ensureDemoBundle()
  try {
    await using cluster = await Cluster.create({ bundle, env: io.env, signal: io.signal })
    io.err('demo: starting a bridge and two devices')
    // Those of the documentation, so that its commands work; a run without --keep leaves them to others.
    const portOf = async (port: number) => (options.keep && (await portIsFree(port)) ? port : 0)
    const { provider, providerPlugin } = options
    const args = ['--provider', provider, ...(providerPlugin === undefined ? [] : ['--provider-plugin', providerPlugin])]
    const bridge = await cluster.startBridge({ args, mqttPort: await portOf(1883), httpPort: await portOf(7070) })
    const ids = [...new Set(questions.map(({ device }) => device))]
    const bridges = [bridge.ready.mqttUrl]
    const agents = await Promise.all(
      ids.map(async (id, at) => cluster.startAgent({ id, args, bridges, apiPort: await portOf(firstApiPort + at) })),
    )
    const apiUrls = new Map(agents.map((agent, at) => [ids[at]!, agent.ready.apiUrl]))
    await using reference = await openReference(bundle, io.env.ORT_LIB, { name: provider, plugin: providerPlugin })
    report(await askEverything(apiUrls, reference, options, io), options, io)
    if (options.keep) await keepRunning(bridge, apiUrls, io)
  } catch (error) {
    // After Ctrl-C, every other failure is a consequence of it.
    throw io.signal.aborted ? new BrimError('CANCELED', 'the demonstration was interrupted') : error
  }
}

async function askEverything(
  apiUrls: ReadonlyMap<string, string>,
  reference: Reference,
  options: DemoRun,
  io: Io,
): Promise<DemoAnswer[]> {
  const { maxTokens } = options
  const quiet = options.json
  const view = new DemoView(questions, io, quiet)
  const byHat = await Promise.all(
    questions.map((question, column) =>
      askByHat({ ...question, maxTokens }, apiUrls.get(question.device)!, (text) => view.add(column, text), io.signal),
    ),
  )
  view.close()
  const wholeView = new DemoView([questionToWholeModel], io, quiet)
  const whole = await reference.answer({ ...questionToWholeModel, maxTokens }, (text) => wholeView.add(0, text), io.signal)
  wholeView.close()
  const answers: DemoAnswer[] = []
  for (const { tokenIds, ...answer } of [...byHat, whole]) {
    const { identical, nearTies } = await reference.check(answer.prompt, tokenIds)
    answers.push({ ...answer, identical, nearTies })
  }
  return answers
}

function report(answers: readonly DemoAnswer[], options: DemoRun, io: Io): void {
  const figures = ['tokens', 'TTFT ms', 'TBT p50', 'p95', 'accept length', 'per trip', 'KiB up', 'down']
  const head = ['device', 'mode', ...figures, 'identical']
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

async function keepRunning(bridge: BridgeNode, apiUrls: ReadonlyMap<string, string>, io: Io): Promise<void> {
  const { httpUrl, mqttUrl } = bridge.ready
  io.err('')
  io.err(`bridge     ${httpUrl}   MQTT ${mqttUrl}`)
  for (const [device, url] of apiUrls) io.err(`${device}  ${url}/v1`)
  io.err('')
  io.err('try in another terminal:')
  for (const line of commandsFor(httpUrl, apiUrls)) io.err(`  ${line}`)
  io.err('press Ctrl-C to stop')
  await untilAborted(io.signal)
}

/** Command lines for the shell that work while the demonstration runs, also where this user is logged in at another bridge. */
function commandsFor(bridgeUrl: string, apiUrls: ReadonlyMap<string, string>): string[] {
  const [[device, apiUrl] = ['', '']] = apiUrls
  const brim = launcher()
  const api = new URL(apiUrl).port === String(firstApiPort) ? '' : ` --api ${apiUrl}`
  const body = JSON.stringify({ model: 'brim', messages: [{ role: 'user', content: 'Is there a good hotel in Paris?' }] })
  return [
    `${brim} ask "Is there a good hotel in Paris?"${api}`,
    `${brim} fleet status --bridge-url ${bridgeUrl}`,
    `${brim} device show ${device} --bridge-url ${bridgeUrl}`,
    `${brim} job submit hat.generate --prompt "What is a lamp?" --watch --bridge-url ${bridgeUrl}`,
    `curl -s ${apiUrl}/v1/chat/completions -H 'content-type: application/json' -d '${body}'`,
  ]
}

/** The launcher as the user's shell finds it. */
function launcher(): string {
  const path = fileURLToPath(new URL('bin/brim', projectRoot))
  const fromHere = relative('', path)
  return fromHere.startsWith('..') ? path : fromHere
}

const ms = (value: number | null) => (value === null ? '–' : value.toFixed(1))
const kib = (bytes: number) => (bytes === 0 ? '–' : (bytes / 1024).toFixed(1))
