import { join } from 'node:path'
import { loadPicePrompts, readPicePrompts } from '../../core/answer/sketch/load-prompts.ts'
import { generalPrompts } from '../../core/answer/sketch/prompts.ts'
import { upstreamLimitsOf } from '../../core/answer/upstream/limit-table.ts'
import { nextSeed } from '../../core/kit/base/next-seed.ts'
import { seededRandom } from '../../core/kit/base/random.ts'
import { DeviceSpeed } from '../../core/policy/hat/device-speed.ts'
import { ActiveModels } from '../models/active-models.ts'
import { BundleChoices } from '../models/bundle-choices.ts'
import { BundleTrial } from '../models/bundle-trial.ts'
import { DeviceSmallModels } from '../pice/device-small-models.ts'
import { SpeedStore } from '../pice/speed-store.ts'
import { openServerModel } from '../slm/server-model.ts'
import type { AgentVariant } from '../variant.ts'
import type { Base } from './base.ts'
import type { AgentState } from './state.ts'

/** The device's parts of the split model, and its small models: each if it has one. */
export async function openModels(
  { config, progress, recording, closers, clock, logger }: Base,
  { bundles, store, verified }: AgentState,
  { openSmall, treeDrafter, adapter }: AgentVariant,
): Promise<ActiveModels> {
  const configured = async (name: string) => ({ name, folder: await bundles.resolve(name) })
  const models = new ActiveModels({
    ...config,
    configured: {
      llm: config.bundle === undefined ? undefined : await configured(config.bundle),
      slms: await Promise.all((config.slms ?? []).map(configured)),
    },
    choices: new BundleChoices(store),
    folderOf: (modelId) => bundles.folderOf(modelId),
    installed: () => bundles.list(),
    verified,
    trial: new BundleTrial(join(config.stateDir, 'bundle-trial.json')),
    progress,
    medusa: treeDrafter !== undefined,
    adapter,
    speed: new DeviceSpeed(),
    openSmall,
    recording,
    clock,
    logger: logger.child({ component: 'models' }),
  })
  closers.push(() => models.close())
  await models.openAll()
  return models
}

/** The small models for expansions. @throws BrimError CONFIG_INVALID, PROMPTS_INVALID */
export async function openSmallModels(
  { config, clock, closers, logger, disclosures }: Base,
  { store }: AgentState,
  models: ActiveModels,
): Promise<DeviceSmallModels> {
  const { slmServer, picePrompts, limits, threads } = config
  const slmLogger = logger.child({ component: 'slm' })
  const prompts = picePrompts === undefined ? generalPrompts : await readPicePrompts(picePrompts)
  const small = new DeviceSmallModels({
    pool: models.smallModels,
    server:
      slmServer &&
      openServerModel({
        ...slmServer,
        leavingOf: disclosures.text('slmServer'),
        limits: upstreamLimitsOf('slmServer', limits),
        clock,
        random: seededRandom(nextSeed()),
        logger: slmLogger,
      }),
    limitBytes: limits.slmBytes,
    threads,
    speeds: new SpeedStore(store, slmLogger),
    promptsOf: async (folder) => (folder === undefined ? prompts : loadPicePrompts(folder, prompts)),
    llm: () => models.llm.current?.model.text,
    clock,
    logger: slmLogger,
  })
  closers.push(() => small.close())
  return small
}
