// Draws one dashboard with Grafana's own packages: units, thresholds, overrides, transformations and panels.
// What does not belong here: what a dashboard shows. Parameters of the URL: see `parameters`.
import {
  ThemeContext, applyFieldOverrides, cacheFieldDisplayNames, createDataFrame, createTheme, dateTime, FieldType, getFieldDisplayValues,
  getDisplayValueAlignmentFactors, identityOverrideProcessor, Registry, standardTransformers,
  standardTransformersRegistry, transformDataFrame,
} from "@grafana/data";
import { initPluginTranslations } from "@grafana/i18n";
import { BarGauge, BigValue, GlobalStyles, PanelChrome, TimeSeries, VizRepeater } from "@grafana/ui";
import { TableNG } from "@grafana/ui/unstable";
import { lastValueFrom } from "rxjs";
import { createRoot } from "react-dom/client";

const parameters = new URLSearchParams(location.search);
const prometheus = parameters.get("prometheus");
const seconds = Number(parameters.get("seconds"));
const theme = createTheme({ colors: { mode: parameters.get("theme") } });
const now = Math.floor(Date.now() / 1000);
const timeRange = { from: dateTime((now - seconds) * 1000), to: dateTime(now * 1000), raw: { from: "", to: "" } };
const CELL = 30, GAP = 8, COLUMNS = 24, HEADER = 48;
const WIDTH = innerWidth - 2 * GAP;

// Grafana's server registers these; overrides and transformations of a dashboard name them.
const PROPERTIES = [
  "unit", "min", "max", "decimals", "displayName", "noValue", "thresholds", "mappings", "links", "color",
  ...["cellOptions", "minWidth", "align", "inspect", "axisSoftMin", "axisSoftMax", "thresholdsStyle"].map((each) => `custom.${each}`),
];
const properties = new Registry(() =>
  PROPERTIES.map((id) => ({
    id, path: id.replace("custom.", ""), name: id, isCustom: id.startsWith("custom."),
    process: identityOverrideProcessor, shouldApply: () => true, settings: {},
  })),
);
standardTransformersRegistry.setInit(() =>
  [...new Set(Object.values(standardTransformers))].map((each) => ({ id: each.id, name: each.name, transformation: async () => each })),
);

// --- queries: as Grafana's data source for Prometheus answers them ------------------------------

async function ask(path, query) {
  const response = await fetch(`${prometheus}/api/v1/${path}?${new URLSearchParams(query)}`);
  const body = await response.json();
  if (body.status !== "success") throw new Error(body.error);
  return body.data.result;
}

// Over days, a range of an interval is longer than the steps.
const INTERVAL = Math.max(60, Math.ceil(seconds / 300) * 4);
const first = {}; // Values of variables that do not offer "All": Grafana selects the first.
const STEP = Math.max(1, Math.floor(seconds / 300));
const chosen = (expr) =>
  expr.replaceAll("$__rate_interval", `${INTERVAL}s`).replaceAll("$__range", `${seconds}s`).replaceAll("$__interval", `${STEP}s`)
    .replace(/\$(\w+)/g, (_, name) => first[name] ?? ".*");

function named({ legendFormat, expr }, labels) {
  if (legendFormat) return legendFormat.replace(/\{\{\s*(\w+)\s*\}\}/g, (_, name) => labels[name] ?? "");
  const pairs = Object.entries(labels).map(([name, value]) => `${name}="${value}"`);
  return pairs.length ? `{${pairs.join(", ")}}` : expr;
}

async function lines(target) {
  const query = chosen(target.expr);
  const found = target.instant
    ? (await ask("query", { query, time: now })).map(({ metric, value }) => ({ metric, values: [value] }))
    : await ask("query_range", { query, start: now - seconds, end: now, step: STEP });
  return found.map(({ metric, values }) =>
    createDataFrame({
      refId: target.refId,
      fields: [
        { name: "Time", type: FieldType.time, values: values.map(([at]) => at * 1000), config: { interval: STEP * 1000 } },
        {
          name: "Value", type: FieldType.number, labels: metric, values: values.map(([, value]) => Number(value)),
          config: { displayNameFromDS: named(target, metric) },
        },
      ],
    }),
  );
}

async function rows(target) {
  const found = await ask("query", { query: chosen(target.expr), time: now });
  const labels = [...new Set(found.flatMap(({ metric }) => Object.keys(metric)))].sort();
  return createDataFrame({
    refId: target.refId,
    fields: [
      { name: "Time", type: FieldType.time, values: found.map(({ value }) => value[0] * 1000), config: {} },
      ...labels.map((name) => ({
        name, type: FieldType.string, values: found.map(({ metric }) => metric[name] ?? ""), config: { filterable: true },
      })),
      {
        name: `Value #${target.refId}`, type: FieldType.number, config: {},
        values: found.map(({ value }) => Number(value[1])),
      },
    ],
  });
}

async function frames(panel) {
  const asked = await Promise.all(panel.targets.map(panel.type === "table" ? rows : lines));
  const answered = await lastValueFrom(transformDataFrame(panel.transformations ?? [], asked.flat()));
  const made = applyFieldOverrides({
    data: answered, fieldConfig: panel.fieldConfig, fieldConfigRegistry: properties, replaceVariables: (text) => text, theme,
  });
  cacheFieldDisplayNames(made);
  return made;
}

// --- panels -------------------------------------------------------------------------------------

const shown = (panel, data) =>
  getFieldDisplayValues({
    data, fieldConfig: panel.fieldConfig, reduceOptions: panel.options.reduceOptions, replaceVariables: (text) => text, theme,
  });

function Values({ panel, data, width, height, orientation, drawn }) {
  return (
    <VizRepeater
      getValues={() => shown(panel, data)} getAlignmentFactors={getDisplayValueAlignmentFactors}
      renderValue={drawn} width={width} height={height} source={data} orientation={orientation} theme={theme}
      renderCounter={0} minVizHeight={panel.options.minVizHeight} maxVizHeight={panel.options.maxVizHeight}
    />
  );
}

// Grafana's packages have neither of these two panels: rows of cells, drawn here with Grafana's colors.
function Cells({ rows, width, height }) {
  const LABEL = 120, GAP = 1, row = Math.min(28, height / rows.length);
  const times = Math.max(...rows.map(({ cells }) => cells.length));
  return (
    <svg width={width} height={height} fontSize={11} fontFamily={theme.typography.fontFamily} fill={theme.colors.text.primary}>
      {rows.map(({ name, cells }, y) => (
        <g key={name} transform={`translate(0, ${y * row})`}>
          <text x={LABEL - 8} y={row / 2 + 4} textAnchor="end">{name}</text>
          {cells.map(({ color, opacity }, x) => (
            <rect
              key={x} x={LABEL + (x * (width - LABEL)) / times} width={(width - LABEL) / times - (times < 100 ? GAP : 0)}
              height={row - GAP} fill={color} fillOpacity={opacity}
            />
          ))}
        </g>
      ))}
    </svg>
  );
}

const WIDEST = 60;
const thinned = (values) => values.filter((_, at) => at % Math.ceil(values.length / WIDEST) === 0);
const numbers = (frame) => frame.fields.find(({ type }) => type === FieldType.number);

function Heat({ data, panel, ...size }) {
  const bound = (frame) => Number(numbers(frame).labels.le.replace("+Inf", "Infinity"));
  const below = [...data].sort((one, other) => bound(one) - bound(other));
  const counts = below.map((frame, at) =>
    thinned(numbers(frame).values).map((value, x) => value - (at ? thinned(numbers(below[at - 1]).values)[x] ?? 0 : 0)),
  );
  const most = Math.max(1, ...counts.flat());
  const name = (frame) => (bound(frame) === Infinity ? "more" : `≤ ${bound(frame) * 100} %`);
  const color = theme.visualization.getColorByName("blue");
  const rows = below.map((frame, at) => ({ name: name(frame), cells: counts[at].map((each) => ({ color, opacity: each / most })) }));
  return <Cells rows={rows.reverse()} {...size} />;
}

function States({ data, panel, ...size }) {
  const rows = data.map((frame) => {
    const field = numbers(frame);
    return { name: field.config.displayNameFromDS, cells: thinned(field.values).map((each) => ({ color: field.display(each).color })) };
  });
  return <Cells rows={rows} {...size} />;
}

const PANELS = {
  heatmap: Heat,
  "status-history": States,
  timeseries: ({ panel, data, width, height }) => (
    <TimeSeries frames={data} width={width} height={height} timeRange={timeRange} timeZone="utc" legend={panel.options.legend} options={{}} />
  ),
  table: ({ panel, data, width, height }) => <TableNG data={data[0]} width={width} height={height} sortBy={panel.options.sortBy} columnMinWidth={panel.fieldConfig.defaults.custom.minWidth} />,
  stat: ({ panel, data, ...size }) => (
    <Values
      panel={panel} data={data} {...size} orientation={panel.options.orientation}
      drawn={({ value, width, height, count }) => (
        <BigValue
          value={value.display} width={width} height={height} count={count} theme={theme} graphMode="none"
          colorMode={panel.options.colorMode} justifyMode={panel.options.justifyMode} textMode={panel.options.textMode}
        />
      )}
    />
  ),
  bargauge: ({ panel, data, ...size }) => (
    <Values
      panel={panel} data={data} {...size} orientation={panel.options.orientation}
      drawn={({ value, width, height, orientation, alignmentFactors }) => (
        <BarGauge
          value={value.display} display={value.display && value.view?.getFieldDisplayProcessor(value.colIndex ?? 0)}
          field={value.field} width={width} height={height} orientation={orientation} alignmentFactors={alignmentFactors}
          displayMode={panel.options.displayMode} showUnfilled={panel.options.showUnfilled}
          valueDisplayMode={panel.options.valueMode} namePlacement={panel.options.namePlacement} theme={theme}
        />
      )}
    />
  ),
};

function Placed({ at, children }) {
  const cell = (WIDTH + GAP) / COLUMNS;
  const place = {
    position: "absolute", left: GAP + at.x * cell, top: HEADER + at.y * (CELL + GAP),
    width: at.w * cell - GAP, height: at.h * (CELL + GAP) - GAP,
  };
  return <div style={place}>{children(place.width, place.height)}</div>;
}

function Drawn({ panel, data }) {
  if (panel.type === "row") return <Placed at={panel.gridPos}>{() => <h4>{panel.title}</h4>}</Placed>;
  const Plot = PANELS[panel.type];
  return (
    <Placed at={panel.gridPos}>
      {(width, height) => (
        <PanelChrome title={panel.title} description={panel.description} width={width} height={height}>
          {(innerWidth, innerHeight) =>
            data.length ? <Plot panel={panel} data={data} width={innerWidth} height={innerHeight} /> : <center>No data</center>
          }
        </PanelChrome>
      )}
    </Placed>
  );
}

async function main() {
  await initPluginTranslations("gpushare");
  const board = await (await fetch(parameters.get("dashboard"))).json();
  for (const { name, query, includeAll } of board.templating.list.filter(({ type }) => type === "query")) {
    if (includeAll) continue;
    const [, series] = query.match(/label_values\((.*), \w+\)/);
    [first[name]] = (await ask("query", { query: chosen(series), time: now })).map(({ metric }) => metric[name]).sort();
  }
  const drawn = await Promise.all(
    board.panels.map(async (panel) => ({ panel, data: panel.type === "row" ? [] : await frames(panel) })),
  );
  const bottom = Math.max(...board.panels.map(({ gridPos }) => gridPos.y + gridPos.h));
  document.body.style.height = `${HEADER + bottom * (CELL + GAP) + GAP}px`;
  createRoot(document.getElementById("dashboard")).render(
    <ThemeContext.Provider value={theme}>
      <GlobalStyles isExtensionSidebarOpen={false} hackNoBackdropBlur={true} />
      <h2 style={{ padding: GAP }}>{board.title}</h2>
      {drawn.map((each) => <Drawn key={each.panel.id} {...each} />)}
    </ThemeContext.Provider>,
  );
  const shown = drawn.filter(({ panel }) => panel.type !== "row");
  const empty = shown.filter(({ data }) => !data.some(({ length }) => length)).map(({ panel }) => panel.title);
  requestIdleCallback(() => { window.drawn = { empty }; });
}

main().catch((error) => { window.failure = String(error.stack ?? error); });
