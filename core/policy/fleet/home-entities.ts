import type { HomeState } from '../../wire/protocol/home.ts'
import type { Device } from '../../wire/protocol/http/devices.ts'
import type { DeviceState } from '../../wire/protocol/messages.ts'

type Field = Exclude<keyof HomeState, 'v'>

/** An entity in Home Assistant: what it shows is one field of the device's `HomeState`. */
interface HomeEntity {
  readonly field: Field
  readonly component: 'sensor' | 'binary_sensor' | 'switch'
  readonly name: string
  /** Jinja: its state, from `value_json`. Absent: the field as it is; null becomes "unknown". */
  readonly template?: string
  /** As Home Assistant's documentation of the component names it. */
  readonly config?: Readonly<Record<string, unknown>>
  /** Only devices with such hardware have it. */
  readonly isHardware?: true
  /** It tells something of a device that is away, too. */
  readonly outlivesDevice?: true
}

const measured = (unit: string, deviceClass?: string) => ({
  unit_of_measurement: unit,
  state_class: 'measurement',
  ...(deviceClass === undefined ? {} : { device_class: deviceClass }),
})
const rate = { ...measured('B/s', 'data_rate'), suggested_display_precision: 0 }
const states: readonly DeviceState['state'][] = ['init', 'ready', 'draining', 'disconnected', 'lost']
const request = (type: 'drain' | 'undrain') => JSON.stringify({ v: 1, type })

/** Each entity of a device, by the last part of its id. Every field of the payload has one. */
export const homeEntities: Readonly<Record<string, HomeEntity>> = {
  state: {
    field: 'state',
    component: 'sensor',
    name: 'State',
    config: { device_class: 'enum', options: states },
    outlivesDevice: true,
  },
  problem: {
    field: 'problems',
    component: 'binary_sensor',
    name: 'Problem',
    template: "{{ 'ON' if value_json.problems else 'OFF' }}",
    config: { device_class: 'problem' },
    outlivesDevice: true,
  },
  problems: {
    field: 'problems',
    component: 'sensor',
    name: 'Problems',
    template: "{{ (value_json.problems | map(attribute='kind') | join(', ')) or 'none' }}",
    config: { entity_category: 'diagnostic' },
    outlivesDevice: true,
  },
  drain: {
    field: 'state',
    component: 'switch',
    name: 'Drained',
    template: "{{ 'ON' if value_json.state == 'draining' else 'OFF' }}",
    config: {
      state_on: 'ON',
      state_off: 'OFF',
      payload_on: request('drain'),
      payload_off: request('undrain'),
      entity_category: 'config',
    },
  },
  jobs: { field: 'jobs', component: 'sensor', name: 'Jobs', config: { state_class: 'measurement' } },
  speed: { field: 'tokensPerS', component: 'sensor', name: 'Speed', config: measured('tokens/s') },
  provider: { field: 'provider', component: 'sensor', name: 'Computed by', config: { entity_category: 'diagnostic' } },
  up: { field: 'upBytesPerS', component: 'sensor', name: 'Uplink', config: rate },
  down: { field: 'downBytesPerS', component: 'sensor', name: 'Downlink', config: rate },
  cpu: { field: 'cpuPercent', component: 'sensor', name: 'CPU load', config: measured('%') },
  gpu: { field: 'gpuPercent', component: 'sensor', name: 'GPU load', config: measured('%'), isHardware: true },
  temperature: {
    field: 'hottestC',
    component: 'sensor',
    name: 'Hottest temperature',
    config: measured('°C', 'temperature'),
    isHardware: true,
  },
  throttled: {
    field: 'isThrottled',
    component: 'binary_sensor',
    name: 'Throttled',
    template: "{{ 'None' if value_json.isThrottled is none else 'ON' if value_json.isThrottled else 'OFF' }}",
    config: { device_class: 'heat' },
    isHardware: true,
  },
  power: { field: 'powerW', component: 'sensor', name: 'Power', config: measured('W', 'power'), isHardware: true },
  battery: { field: 'batteryPercent', component: 'sensor', name: 'Battery', config: measured('%', 'battery'), isHardware: true },
}

/** The topics that an entity names. */
export interface HomeTopicsOf {
  readonly state: string
  readonly drain: string
  /** The retained states of the device and of its bridge, with wills. */
  readonly deviceState: string
  readonly bridgeState: string
}

const isThere = "{{ 'online' if value_json.state in ['ready', 'draining'] else 'offline' }}"

/**
 * The discovery payload of an entity of `homeEntities`: https://www.home-assistant.io/integrations/mqtt/#mqtt-discovery
 * @param version of the bridge
 */
export function discoveryOf(
  name: string,
  entity: HomeEntity,
  { id, agent, telemetry }: Pick<Device, 'id' | 'agent' | 'telemetry'>,
  fleet: string,
  topics: HomeTopicsOf,
  version: string,
): object {
  const hardware = telemetry?.device
  const model = hardware?.module ?? hardware?.model
  const available = [topics.bridgeState, ...(entity.outlivesDevice ? [] : [topics.deviceState])]
  return {
    name: entity.name,
    unique_id: `brim_${fleet}_${id}_${name}`,
    state_topic: topics.state,
    value_template: entity.template ?? `{{ value_json.${entity.field} }}`,
    ...(entity.component === 'switch' ? { command_topic: topics.drain } : {}),
    ...entity.config,
    availability: available.map((topic) => ({ topic, value_template: isThere })),
    availability_mode: 'all',
    qos: 1,
    device: {
      identifiers: [`brim_${fleet}_${id}`],
      name: id,
      ...(model == null ? {} : { model }),
      ...(agent === null ? {} : { sw_version: agent }),
    },
    origin: { name: 'Brim', sw_version: version },
  }
}
