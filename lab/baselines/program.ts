import { z } from 'zod'
import { options as agentOptions, runAgent } from '../../agent/commands/run.ts'
import { options as bridgeOptions, runBridge } from '../../cloud-bridge/commands/bridge/run.ts'
import { type Command, defineCommand, type Menu } from '../../core/kit/cli/command.ts'
import { runCommand, runProgram } from '../../core/kit/cli/program.ts'
import { medusaOf } from './medusa-drafter.ts'
import { pacedBundle, pacedSmallModel } from './paced-model.ts'
import { baselinePolicyNames, createServingPolicy } from './serving-policies.ts'
import { staticSketches } from './sketch-policies.ts'

const paceOptions = {
  stepMs: z.number().min(0).default(0).describe('duration of each step of the model, in ms'),
  rowMs: z.number().min(0).default(0).describe('further duration for each token that the step computes, in ms'),
}

const agent = defineCommand({
  examples: [['agent run --slm small --id jetson-01 --step-ms 20 --row-ms 1', 'at most 48 tokens per second of one answer']],
  options: {
    ...agentOptions,
    ...paceOptions,
    prefill: z.enum(['chunked', 'whole', 'whole-all']).default('chunked').describe('how a prompt is sent to the bridge'),
    reuse: z.boolean().default(true).describe('reuse KV that the bridge has cached from earlier prompts'),
    medusa: z.boolean().default(false).describe('draft with the Medusa heads of the bundle'),
    paperAdapter: z.boolean().default(false).describe("draft with the paper's adapter, which reads no deep states"),
    hat: z
      .boolean()
      .default(true)
      .describe('answer by HAT where that is best; otherwise by the small model and the server alone'),
    early: z.boolean().default(true).describe('send rows before the bridge has opened the session'),
  },
  run: ({ stepMs, rowMs, prefill, reuse, medusa, paperAdapter, early, hat, ...given }, io) =>
    runAgent(given, io, {
      prefill,
      forgetsPrefixes: !reuse,
      awaitsSessions: !early,
      withoutHat: !hat,
      ...(paperAdapter ? { adapter: 'adapter-paper' } : {}),
      ...(stepMs + rowMs > 0 ? { openSmall: pacedSmallModel({ stepMs, rowMs }) } : {}),
      ...(medusa ? { treeDrafter: medusaOf } : {}),
    }),
})

const bridge = defineCommand({
  examples: [['bridge run --bundle qwen --step-ms 20 --row-ms 1', 'at most 48 tokens per second of one answer, 444 of 16']],
  options: {
    ...bridgeOptions,
    ...paceOptions,
    baseline: z.enum(baselinePolicyNames).optional().describe('which answers the model computes next'),
    kvWriteThrough: z.boolean().default(true).describe('write new KV to --kv-slow while steps compute'),
    kvOverlap: z.boolean().default(true).describe('restore the KV of a resumed stream while that of a preempted one leaves'),
    fixedChunks: z.boolean().default(false).describe('chunks of prompts have --chunk-tokens, in place of the size by HAT Eq. 3'),
    staticSketches: z.boolean().default(false).describe('sketch by length alone, and expand in order of arrival'),
  },
  run: ({ stepMs, rowMs, baseline, kvWriteThrough, kvOverlap, fixedChunks, staticSketches: isStatic, ...given }, io) =>
    runBridge(given, io, {
      fixedChunks,
      withoutKv: { writeThrough: !kvWriteThrough, overlap: !kvOverlap },
      ...(stepMs + rowMs > 0 ? { openModel: pacedBundle({ stepMs, rowMs }) } : {}),
      ...(baseline ? { servingPolicy: (limits) => createServingPolicy(baseline, limits) } : {}),
      ...(isStatic ? { sketches: staticSketches } : {}),
    }),
})

const startedBy = (command: Command) => async () => ({
  menu: { examples: [], commands: { run: ['starts it', async () => ({ command })] } } satisfies Menu,
})

/** `agent run` and `bridge run` as benchmarks start them: with baselines, or with the pace of another machine. */
const menu: Menu = {
  examples: [],
  commands: { agent: ['an agent', startedBy(agent)], bridge: ['a bridge', startedBy(bridge)] },
}

await runProgram((argv, io) => runCommand(menu, argv, io))
