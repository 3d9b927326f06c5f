import { BrimError } from '../../core/base/errors.ts'
import { loadPicePrompts } from '../../core/pice/load-prompts.ts'
import type { SmallModelSpeed } from '../../core/policy/pice/state.ts'
import type { ActiveModels } from '../models/active-models.ts'
import type { SmallModels } from '../pice/small-models.ts'

/** Until the device measures its models. */
const unmeasured: Omit<SmallModelSpeed, 'model'> = { loadS: 0, ttftS: 0.1, tpotS: 0.01, parallel: [[16, 4]], ability: undefined }

/** The device's own small model as its only one. */
export function ownSmallModel(models: ActiveModels): SmallModels {
  const name = () => models.slm.current?.model.text.name
  return {
    list: () => (name() === undefined ? [] : [{ model: name()!, ...unmeasured }]),
    get current() {
      return name()
    },
    async borrow(wanted) {
      const { current } = models.slm
      if (!current || wanted !== name()) throw new BrimError('MODEL_MISSING', `the small model ${wanted} is not installed`)
      const prompts = await loadPicePrompts(current.folder)
      return { open: { kind: 'bundle', prompts, model: current.model }, loadMs: 0, release() {} }
    },
    record() {},
  }
}
