import { DeviceSpeed } from '../../core/policy/hat/device-speed.ts'

/** Whatever the machine does, there is always time to draft one step more ahead. */
export class TimelessSpeed extends DeviceSpeed {
  override get aheadStepS(): number {
    return 1e-6
  }
}
