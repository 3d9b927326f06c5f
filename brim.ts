import { existsSync, realpathSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { BrimError, type ExitCode } from './core/kit/base/errors.ts'
import type { Io } from './core/kit/base/io.ts'
import type { Menu } from './core/kit/cli/command.ts'
import { execute } from './core/kit/cli/execute.ts'
import { runCommand, runProgram } from './core/kit/cli/program.ts'

const laboratory: Menu['commands'] = {
  bench: ['benchmarks: every figure of the README, measured on this machine', () => import('./lab/bench/menu.ts')],
  simulate: [
    "the simulator: the live system's policies on a virtual clock, on hardware that you do not have",
    () => import('./lab/simulate/menu.ts'),
  ],
}
/** Packages leave the laboratory out. */
const hasLaboratory = existsSync(new URL('lab/bench', import.meta.url))

/** Every command. A module is loaded when its command runs, or when its help is shown. */
export const menu: Menu = {
  examples: [
    ['brim demo', 'a bridge, two devices and three private answers on this machine'],
    ['brim model build ./Qwen2.5-0.5B --split 2 --format int4 --out qwen', 'checkpoint → bundle'],
    ['brim bridge run --bundle qwen', 'the cloud side'],
    ['brim agent run --bundle qwen --id jetson-01', 'the device side'],
    ['brim ask "Can you book a table for two?"', 'ask the agent on this device'],
  ],
  commands: {
    'ask <question>': ['ask the agent on this device and stream its answer', () => import('./agent/commands/ask.ts')],
    model: ['bundles: build, inspect, verify, run', () => import('./core/commands/model-menu.ts')],
    privacy: ['what a bridge could read of private answers', () => import('./core/commands/privacy-menu.ts')],
    agent: [
      'the device side: answer locally, with the middle of the model at a bridge',
      () => import('./agent/commands/menu.ts'),
    ],
    bridge: [
      'the cloud side: serve the middle of a model; tokens, keys, audit log',
      () => import('./cloud-bridge/commands/bridge/menu.ts'),
    ],
    device: [
      'devices of a fleet: list, watch, drain, label, approve, revoke',
      () => import('./cloud-bridge/commands/device/menu.ts'),
    ],
    fleet: ['state of the whole fleet', () => import('./cloud-bridge/commands/fleet/menu.ts')],
    bundle: [
      'bundles and releases for devices: sign, push to the bridge, list',
      () => import('./cloud-bridge/commands/bundle/menu.ts'),
    ],
    job: ['durable jobs for devices, queued at the bridge', () => import('./cloud-bridge/commands/job/menu.ts')],
    rollout: [
      'rollouts: bundles, configuration and software for a part of the fleet, a few devices at a time',
      () => import('./cloud-bridge/commands/rollout/menu.ts'),
    ],
    login: ["store a bridge's URL and API key for later commands", () => import('./cloud-bridge/commands/login/login.ts')],
    logout: [
      'delete a stored login; its key stays valid until it is revoked',
      () => import('./cloud-bridge/commands/login/logout.ts'),
    ],
    whoami: [
      'show which API key is used here: its name, role, expiry and remaining quota',
      () => import('./cloud-bridge/commands/login/whoami.ts'),
    ],
    doctor: ['check what this machine offers Brim, and what is missing', loadDoctor],
    'completion <shell>': ['print a script that completes commands and options in your shell', loadCompletion],
    ...(hasLaboratory ? laboratory : {}),
    demo: [
      'run a bridge, two devices and three private answers on this machine',
      () => import('./scripts/demonstration/command.ts'),
    ],
  },
}

async function loadCompletion() {
  const { completionCommand } = await import('./core/commands/completion.ts')
  return { command: completionCommand(menu) }
}

async function loadDoctor() {
  const [{ doctorCommand }, { checkDevice }, { checkBridges }] = await Promise.all([
    import('./core/commands/doctor.ts'),
    import('./agent/commands/device-check.ts'),
    import('./agent/commands/bridge-check.ts'),
  ])
  return { command: doctorCommand([async () => [await checkDevice()], checkBridges]) }
}

/** @throws BrimError PREREQUISITE_MISSING for a command of the laboratory */
function rejectLaboratory([noun = '']: readonly string[]): void {
  if (!Object.hasOwn(laboratory, noun)) return
  throw new BrimError('PREREQUISITE_MISSING', `"brim ${noun}" belongs to a checkout of the sources: packages do not have it`, {
    hint: 'clone the repository, run scripts/setup, then bin/brim there',
  })
}

/** Runs one command; errors are printed. Results go to `io.out`, all else to `io.err`. */
export const run = (argv: readonly string[], io: Io): Promise<ExitCode> =>
  runCommand(menu, argv, io, async () => {
    if (!hasLaboratory) rejectLaboratory(argv)
    await execute(menu, argv, io)
  })

if (process.argv[1] !== undefined && realpathSync(process.argv[1]) === fileURLToPath(import.meta.url)) await runProgram(run)
