import { DeviceSpeed } from '../../core/policy/hat/device-speed.ts'

/** A device that always has time for one more step of drafting ahead, on any machine. */
export class TimelessSpeed extends DeviceSpeed {
  override get aheadStepS(): number {
    return 1e-6
  }
}
