import { visibleLine } from '../../../core/kit/base/visible-text.ts'
import { defineCommand } from '../../../core/kit/cli/command.ts'
import { bridgeOptions } from '../../../core/kit/login/bridge-access.ts'
import { deviceOperations } from '../../../core/wire/protocol/http/devices.ts'
import { bridgeClient } from '../bridge-client.ts'
import { deviceOption } from './remote-command.ts'

export const command = defineCommand({
  examples: [['brim device remove jetson-01', 'after its agent was stopped, or the device revoked']],
  notes: 'Its key never enrols again: on a device that comes back, run "brim agent reset-identity" and enrol it anew.',
  options: { device: deviceOption, ...bridgeOptions },
  async run({ device, json, ...options }, io) {
    const client = await bridgeClient(options, io)
    const { raw, value } = await client.call(deviceOperations.remove, { params: { id: device } })
    const canceled = value.canceledJobs === 0 ? '' : `; ${value.canceledJobs} of its jobs canceled`
    io.out(json ? JSON.stringify(raw) : visibleLine(`device ${device} removed${canceled}`))
  },
})
