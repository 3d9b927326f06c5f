import { readFileSync } from 'node:fs'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { CommandModule } from 'yargs'
import type { Io } from '../core/base/io.ts'
import { quantile } from '../core/base/statistics.ts'
import { type Answer, askByHat, askWhole, openReference, type Question } from './demo-answers.ts'
import { ensureDemoBundle } from './demo-bundle.ts'
import { DemoView } from './demo-view.ts'
import { type BrimProcess, startBrim } from './processes.ts'

interface DemoOptions {
  json: boolean
  keep: boolean
  maxTokens: number
}

export function demoCommand(io: Io): CommandModule<object, DemoOptions> {
  return {
    command: 'demo',
    describe: 'a bridge, two devices and three private answers on this machine, checked against the whole model',
    builder: (yargs) =>
      yargs
        .example('brim demo', 'answers side by side, then a table')
        .example('brim demo --json | tail -n 1 | jq .answers', 'the same figures as JSON')
        .example('brim demo --keep', 'leave bridge and devices running until Ctrl-C')
        .option('json', { type: 'boolean', default: false, describe: 'print one JSON document as the last line' })
        .option('keep', { type: 'boolean', default: false, describe: 'leave everything running and print the endpoints' })
        .option('max-tokens', { type: 'number', default: 64, describe: 'longest answer, in tokens' }),
    handler: async (options) => {
      await runDemo(options, io)
    },
  }
}

const questions: readonly Omit<Question, 'maxTokens'>[] = [
  { device: 'jetson-01', prompt: 'Can you find me a nice restaurant in San Jose for two people?' },
  { device: 'jetson-02', prompt: 'Do you like to watch football on TV?' },
  { device: 'jetson-01', prompt: 'I want to transfer some money to my savings account.' },
]
const forTheWhole = { device: 'this machine', prompt: 'What will the weather be like in London tomorrow?' }

async function runDemo(options: DemoOptions, io: Io): Promise<void> {
  io.err('building the demonstration bundle (cached) …')
  const bundle = await ensureDemoBundle()
  const state = await mkdtemp(join(tmpdir(), 'brim-demo-'))
  const started: BrimProcess[] = []
  const start = async (...args: string[]) => {
    const process = await startBrim(args, { env: io.env, signal: io.signal })
    started.push(process)
    return process
  }
  try {
    io.err('starting a bridge and two devices …')
    const bridge = await start('bridge', 'run', '--bundle', bundle, '--state-dir', join(state, 'bridge'), '--mqtt-port', '0', '--http-port', '0')
    const agents = new Map<string, string>()
    for (const device of new Set(questions.map((question) => question.device))) {
      const where = ['--id', device, '--bridge', String(bridge.ready['mqttUrl']), '--state-dir', join(state, device), '--api-port', '0']
      const agent = await start('agent', 'run', '--bundle', bundle, ...where)
      agents.set(device, String(agent.ready['apiUrl']))
    }
    const answers = await askEverything(bundle, agents, options, io)
    printTable(answers, options, io)
    if (options.keep) await keepRunning(bridge, agents, io)
  } finally {
    await Promise.all(started.map((process) => process.stop()))
    await rm(state, { recursive: true, force: true })
  }
}

async function askEverything(bundle: string, agents: ReadonlyMap<string, string>, options: DemoOptions, io: Io): Promise<Answer[]> {
  const reference = await openReference(bundle)
  try {
    const asked = questions.map((question) => ({ ...question, maxTokens: options.maxTokens }))
    const view = new DemoView(
      asked.map((question) => `${question.device}: ${question.prompt}`),
      io,
      options.json,
    )
    const answers = await Promise.all(
      asked.map((question, column) =>
        askByHat(question, agents.get(question.device) ?? '', reference, (text) => view.add(column, text), io.signal),
      ),
    )
    view.close()
    const wholeView = new DemoView([`whole model, no network: ${forTheWhole.prompt}`], io, options.json)
    const whole = await askWhole({ ...forTheWhole, maxTokens: options.maxTokens }, reference, (text) => wholeView.add(0, text), io.signal)
    wholeView.close()
    return [...answers, whole]
  } finally {
    await reference.release()
  }
}
