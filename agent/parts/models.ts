import { DeviceSpeed } from '../../core/policy/hat/device-speed.ts'
import { ActiveModels } from '../models/active-models.ts'
import { BundleChoices } from '../models/bundle-choices.ts'
import type { Base } from './base.ts'

/** The device's parts of the split model, and its small model: each if it has one. */
export async function openModels({ config, bundles, store, verified, closers, logger }: Base) {
  const configured = async (name: string | undefined) =>
    name === undefined ? undefined : { name, folder: await bundles.resolve(name) }
  const models = new ActiveModels({
    ...config,
    configured: { llm: await configured(config.bundle), slm: await configured(config.slm) },
    choices: new BundleChoices(store),
    folderOf: (modelId) => bundles.folderOf(modelId),
    verified,
    medusa: config.draft.drafter === 'medusa',
    speed: new DeviceSpeed(config.smoothing),
    logger: logger.child({ component: 'models' }),
  })
  closers.push(() => models.close())
  await models.openAll()
  return models
}
